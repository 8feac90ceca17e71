// Uploads of files and whole folders: a few at a time, each with its progress, and
// what went wrong by file.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Api, Problem } from "../../lib/api";
import { count, of as plural } from "../../lib/format";
import { unzip } from "../../lib/unzip";
import { Button } from "./basic";
import { asProblem } from "./load";

// A Piece is a file to upload, with its path below the current folder.
export interface Piece {
  file: () => Promise<Blob>;
  path: string;
}

interface Upload {
  id: number;
  path: string;
  part: number;
  problem?: Problem;
  done?: boolean;
}

export interface Uploads {
  shown: Upload[]; // running, failed, and the latest that are done
  total: number; // files of the current batch
  ended: number; // of them; also those that failed
  failed: number;
  send: (pieces: Piece[]) => Promise<void>;
  stop: () => void;
  dismiss: (id: number) => void;
}

const atOnce = 4;
const mostDone = 8; // finished ones to show
const mostFailed = 50; // failed ones to show
const shownFor = 2000; // milliseconds, once all have ended

let ids = 0;

// latest returns the uploads to list.
function latest(all: Upload[]): Upload[] {
  let done = 0;
  let failed = 0;
  return all
    .toReversed()
    .filter((u) => (u.problem ? ++failed <= mostFailed : !u.done || ++done <= mostDone))
    .toReversed();
}

// useUploads uploads files below a prefix of a drive and calls onEnd when all have
// ended. A file is not sent if refuse returns a reason. Leaving the page cancels pending ones.
export function useUploads(api: Api, root: string, prefix: string, refuse: (path: string, bytes: number) => Promise<string | undefined>, onEnd: () => void): Uploads {
  const [shown, setShown] = useState<Upload[]>([]);
  const [sums, setSums] = useState({ total: 0, ended: 0, failed: 0 });
  const waiting = useRef<Piece[]>([]); // the next is the last
  const working = useRef(0);
  const busy = sums.ended < sums.total;

  useEffect(() => () => void (waiting.current = []), []);
  useEffect(() => {
    if (!busy) return;
    const ask = (event: BeforeUnloadEvent) => event.preventDefault();
    addEventListener("beforeunload", ask);
    return () => removeEventListener("beforeunload", ask);
  }, [busy]);

  const work = async () => {
    for (let piece = waiting.current.pop(); piece; piece = waiting.current.pop()) {
      const id = ++ids;
      const change = (what: Partial<Upload>) => setShown((all) => all.map((u) => (u.id === id ? { ...u, ...what } : u)));
      const path = piece.path;
      setShown((all) => [...latest(all), { id, path, part: 0 }]);
      try {
        const file = await piece.file();
        const reason = await refuse(path, file.size);
        if (reason) throw new Error(reason);
        await api.upload(root + "/files/content", { path }, file, (part) => change({ part }));
        change({ part: 1, done: true });
        setSums((s) => ({ ...s, ended: s.ended + 1 }));
      } catch (error) {
        change({ problem: asProblem(error) });
        setSums((s) => ({ ...s, ended: s.ended + 1, failed: s.failed + 1 }));
      }
    }
  };

  const send = async (pieces: Piece[]) => {
    waiting.current.unshift(...pieces.map((p) => ({ ...p, path: prefix + p.path })).reverse());
    setSums((s) => ({ ...s, total: s.total + pieces.length }));
    const workers: Promise<void>[] = [];
    while (working.current < atOnce && waiting.current.length > 0) {
      working.current++;
      workers.push(work().finally(() => working.current--));
    }
    await Promise.all(workers);
    if (workers.length === 0 || working.current > 0) return; // others are at it
    onEnd();
    setTimeout(() => {
      if (working.current > 0) return;
      setShown((all) => all.filter((u) => u.problem));
      setSums({ total: 0, ended: 0, failed: 0 });
    }, shownFor);
  };

  const stop = () => {
    const left = waiting.current.length;
    waiting.current = [];
    setSums((s) => ({ ...s, total: s.total - left }));
  };

  return { shown, ...sums, send, stop, dismiss: (id) => setShown((all) => all.filter((u) => u.id !== id)) };
}

export function UploadList({ of: u }: { of: Uploads }) {
  if (u.shown.length === 0) return null;
  return (
    <>
      {u.total > 1 && (
        <div class="uploads-sum row small" role="status">
          <progress max={u.total} value={u.ended} aria-label="Upload of all files" />
          <span>
            {count(u.ended)} of {plural(u.total, "file")}
            {u.failed > 0 && <span class="problem">, {count(u.failed)} failed</span>}
          </span>
          {u.ended < u.total && (
            <div class="push">
              <Button small icon="stop" onClick={u.stop}>
                Stop
              </Button>
            </div>
          )}
        </div>
      )}
      <ul class="uploads">
        {u.shown.map((one) => (
          <li key={one.id}>
            <span class="breaks">{one.path}</span>
            {one.problem ? (
              <span class="problem">
                {one.problem.message}{" "}
                <Button small kind="quiet" onClick={() => u.dismiss(one.id)}>
                  Dismiss
                </Button>
              </span>
            ) : one.done ? (
              <span class="muted">done</span>
            ) : (
              <progress max={1} value={one.part} aria-label={"Upload of " + one.path} />
            )}
          </li>
        ))}
      </ul>
    </>
  );
}

const mostFiles = 10_000; // maximum number of files dropped or picked together

// hidden reports whether the name of a file, or of one of its folders, begins with a
// dot: such files are rarely intended.
const hidden = (path: string) => path.includes("/") && path.split("/").some((name) => name.startsWith("."));

// picked returns the files of an input, with their paths in a folder.
export function picked(files: Iterable<File>): Piece[] {
  return [...files]
    .map((file) => ({ file: async () => file, path: file.webkitRelativePath || file.name }))
    .filter((p) => !hidden(p.path))
    .slice(0, mostFiles);
}

// unpacked returns the files of a zip archive. It throws an Error if the archive cannot
// be read.
export async function unpacked(archive: File): Promise<Piece[]> {
  return (await unzip(archive))
    .filter((f) => !hidden(f.path))
    .slice(0, mostFiles)
    .map((f) => ({ file: f.unpack, path: f.path }));
}

// dropped returns the dropped files, including those in folders. It must be called
// during the event, because its items are not available afterwards.
export async function dropped(data: DataTransfer): Promise<Piece[]> {
  const out: Piece[] = [];
  const files = [...data.files];
  const entries = [...data.items].map((item) => item.webkitGetAsEntry?.() ?? null).filter((e) => e !== null);
  if (entries.length === 0) return picked(files);
  const folders: FileSystemDirectoryEntry[] = [];
  const take = async (entry: FileSystemEntry) => {
    const path = entry.fullPath.replace(/^\//, "");
    if (hidden(path) || out.length >= mostFiles) return;
    if (entry.isDirectory) folders.push(entry as FileSystemDirectoryEntry);
    else out.push({ file: () => new Promise<File>((done, failed) => (entry as FileSystemFileEntry).file(done, failed)), path });
  };
  for (const entry of entries) await take(entry);
  for (let folder = folders.shift(); folder; folder = folders.shift()) {
    const reader = folder.createReader();
    for (;;) {
      const some = await new Promise<FileSystemEntry[]>((done, failed) => reader.readEntries(done, failed)); // in pieces, the last is empty
      if (some.length === 0) break;
      for (const entry of some) await take(entry);
    }
  }
  return out;
}
