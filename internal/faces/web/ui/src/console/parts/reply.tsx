import { useEffect, useRef, useState } from "preact/hooks";
import { copyText } from "../../lib/copy";
import { markdown } from "../../lib/markdown";

// withCopy adds a copy button to each block of code, and makes it scrollable with the
// keyboard.
function withCopy(text: DocumentFragment): DocumentFragment {
  for (const pre of text.querySelectorAll("pre")) {
    const code = pre.textContent ?? "";
    const frame = document.createElement("div");
    frame.className = "block";
    const button = document.createElement("button");
    button.type = "button";
    button.className = "button quiet small copy";
    button.textContent = "Copy";
    button.onclick = async () => {
      button.textContent = (await copyText(code)) ? "Copied" : "Not allowed";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    };
    pre.tabIndex = 0;
    pre.replaceWith(frame);
    frame.append(pre, button);
  }
  return text;
}

// A ReplyText shows Markdown as it arrives. It is laid out at most once per
// frame.
export function ReplyText({ text, streaming }: { text: string; streaming: boolean }) {
  const at = useRef<HTMLDivElement>(null);
  const frame = useRef(0);
  useEffect(() => {
    cancelAnimationFrame(frame.current);
    frame.current = requestAnimationFrame(() => at.current?.replaceChildren(streaming ? markdown(text) : withCopy(markdown(text))));
    return () => cancelAnimationFrame(frame.current);
  }, [text, streaming]);
  return <div ref={at} class={"reply" + (streaming ? " streaming" : "")} />;
}

// Spoken reads a reply to screen readers sentence by sentence, not by tokens.
export function Spoken({ text, done }: { text: string; done: boolean }) {
  const [said, setSaid] = useState("");
  const upTo = useRef(0);
  useEffect(() => {
    if (text.length < upTo.current) upTo.current = 0; // another reply
    const rest = text.slice(upTo.current);
    const ends = [...rest.matchAll(/[.!?:]\s|\n/g)];
    const end = done ? rest.length : ends.length ? ends.at(-1)!.index + 1 : 0;
    if (end === 0) return;
    upTo.current += end;
    setSaid(rest.slice(0, end).trim());
  }, [text, done]);
  return (
    <div class="unseen" aria-live="polite">
      {said}
    </div>
  );
}
