// A DiffLine is a line of two texts: in both, only in the newer, or only in the older.
export interface DiffLine {
  kind: "same" | "new" | "gone";
  text: string;
}

const mostCells = 4_000_000; // of the table; beyond it the texts count as completely different

// diffLines compares two texts by their longest common sequence of lines.
export function diffLines(was: string[], now: string[]): DiffLine[] {
  if ((was.length + 1) * (now.length + 1) > mostCells) return [...was.map((text) => ({ kind: "gone" as const, text })), ...now.map((text) => ({ kind: "new" as const, text }))];
  const wide = now.length + 1;
  const common = new Uint32Array((was.length + 1) * wide); // of the rest after both places
  for (let i = was.length - 1; i >= 0; i--) {
    for (let j = now.length - 1; j >= 0; j--) {
      common[i * wide + j] = was[i] === now[j] ? common[(i + 1) * wide + j + 1]! + 1 : Math.max(common[(i + 1) * wide + j]!, common[i * wide + j + 1]!);
    }
  }
  const out: DiffLine[] = [];
  let i = 0;
  let j = 0;
  while (i < was.length || j < now.length) {
    if (i < was.length && j < now.length && was[i] === now[j]) {
      out.push({ kind: "same", text: now[j]! });
      i++;
      j++;
    } else if (i < was.length && (j === now.length || common[(i + 1) * wide + j]! >= common[i * wide + j + 1]!)) out.push({ kind: "gone", text: was[i++]! });
    else out.push({ kind: "new", text: now[j++]! });
  }
  return out;
}
