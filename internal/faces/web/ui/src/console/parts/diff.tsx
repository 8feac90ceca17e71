import { diffLines } from "../../lib/diff";
import { EscapedText } from "./escapedtext";

const lines = (text: string) => (text === "" ? [] : text.split("\n"));

// Diff shows the lines of a text with added and removed ones marked; texts of a server
// are shown as data.
export function Diff({ was, now, data }: { was?: string; now: string; data?: boolean }) {
  if (was === undefined || was === now) return <p class="small">{now}</p>;
  return (
    <div class="diff small">
      {diffLines(lines(was), lines(now)).map((l) => (
        <div class={l.kind}>
          <span class="unseen">{l.kind === "new" ? "Added: " : l.kind === "gone" ? "Removed: " : ""}</span>
          <span aria-hidden="true">{l.kind === "new" ? "+ " : l.kind === "gone" ? "- " : "  "}</span>
          {data ? <EscapedText text={l.text} /> : l.text}
        </div>
      ))}
    </div>
  );
}
