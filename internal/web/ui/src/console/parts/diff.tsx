import { diffLines } from "../../lib/diff";

// Diff shows the lines of a text, and which are new or gone since the text before.
export function Diff({ was, now }: { was?: string; now: string }) {
  if (was === undefined || was === now) return <p class="small">{now}</p>;
  return (
    <div class="diff small">
      {diffLines(was.split("\n"), now.split("\n")).map((l) => (
        <div class={l.kind}>
          <span class="unseen">{l.kind === "new" ? "Added: " : l.kind === "gone" ? "Removed: " : ""}</span>
          <span aria-hidden="true">{l.kind === "new" ? "+ " : l.kind === "gone" ? "- " : "  "}</span>
          {l.text}
        </div>
      ))}
    </div>
  );
}
