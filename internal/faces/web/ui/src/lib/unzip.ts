// Reads zip archives (APPNOTE 6.3) with stored and deflated files, as all common
// programs create them. Files are unpacked only on request, and never beyond the size
// in the archive's directory.

// A Packed is a file of an archive.
export interface Packed {
  path: string;
  bytes: number; // unpacked
  unpack: () => Promise<Blob>; // rejects with an Error that contains the reason
}

const mostBytes = 128 << 20; // of one file, unpacked
const endSize = 22; // of the end record, before a comment of at most 65,535 bytes

// unzip returns the files of an archive, without folders and metadata of programs. It
// throws an Error if the archive cannot be read.
export async function unzip(archive: Blob): Promise<Packed[]> {
  const tail = await view(archive, Math.max(0, archive.size - endSize - 0xffff), archive.size);
  let end = tail.byteLength - endSize;
  while (end >= 0 && !(tail.getUint32(end, true) === 0x06054b50 && end + endSize + tail.getUint16(end + 20, true) === tail.byteLength)) end--;
  if (end < 0) throw new Error("Not a zip archive, or incomplete.");
  const count = tail.getUint16(end + 10, true);
  const at = tail.getUint32(end + 16, true);
  const length = tail.getUint32(end + 12, true);
  if (count === 0xffff || at === 0xffffffff || at + length > archive.size) throw new Error("Archives of more than 65,534 files or 4 GB cannot be read.");
  const directory = await view(archive, at, at + length);
  const out: Packed[] = [];
  let p = 0;
  for (let i = 0; i < count; i++) {
    if (p + 46 > length || directory.getUint32(p, true) !== 0x02014b50) throw new Error("The archive is damaged.");
    const [name, extra, comment] = [28, 30, 32].map((o) => directory.getUint16(p + o, true)) as [number, number, number];
    const entry = {
      flags: directory.getUint16(p + 8, true),
      method: directory.getUint16(p + 10, true),
      crc: directory.getUint32(p + 16, true),
      packed: directory.getUint32(p + 20, true),
      bytes: directory.getUint32(p + 24, true),
      at: directory.getUint32(p + 42, true),
    };
    if (p + 46 + name > length) throw new Error("The archive is damaged.");
    const path = new TextDecoder().decode(new Uint8Array(directory.buffer, directory.byteOffset + p + 46, name)).replaceAll("\\", "/");
    p += 46 + name + extra + comment;
    if (path.endsWith("/") || path.startsWith("__MACOSX/")) continue;
    out.push({ path, bytes: entry.bytes, unpack: () => unpack(archive, entry) });
  }
  return out;
}

interface Entry {
  flags: number;
  method: number;
  crc: number;
  packed: number;
  bytes: number;
  at: number;
}

async function unpack(archive: Blob, e: Entry): Promise<Blob> {
  if (e.flags & 1) throw new Error("It is encrypted.");
  if (e.method !== 0 && e.method !== 8) throw new Error("Unsupported compression method.");
  if (e.bytes > mostBytes) throw new Error("It has more than 128 MB.");
  const head = await view(archive, e.at, e.at + 30);
  if (head.byteLength < 30 || head.getUint32(0, true) !== 0x04034b50) throw new Error("The archive is damaged.");
  const from = e.at + 30 + head.getUint16(26, true) + head.getUint16(28, true);
  let packed = archive.slice(from, from + e.packed).stream();
  if (e.method === 8) packed = packed.pipeThrough(new DecompressionStream("deflate-raw"));
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let bytes = 0;
  let crc = ~0;
  const reader = packed.getReader();
  for (;;) {
    const { done, value } = await reader.read().catch(() => Promise.reject(new Error("The archive is damaged.")));
    if (done) break;
    bytes += value.length;
    if (bytes > e.bytes) {
      void reader.cancel();
      break;
    }
    for (const byte of value) crc = (crc >>> 8) ^ table[(crc ^ byte) & 0xff]!;
    parts.push(value);
  }
  if (bytes !== e.bytes || ~crc >>> 0 !== e.crc) throw new Error("The archive is damaged.");
  return new Blob(parts);
}

async function view(archive: Blob, from: number, to: number): Promise<DataView> {
  return new DataView(await archive.slice(from, to).arrayBuffer());
}

// table is the CRC-32 table.
const table = Array.from({ length: 256 }, (_, n) => {
  for (let bit = 0; bit < 8; bit++) n = n & 1 ? (n >>> 1) ^ 0xedb88320 : n >>> 1;
  return n >>> 0;
});
