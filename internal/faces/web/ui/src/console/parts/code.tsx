import { useState } from "preact/hooks";
import { copyText } from "../../lib/copy";

// A Code block shows an unchanged text with a button that copies it.
export function Code({ text, title, wraps }: { text: string; title?: string; wraps?: boolean }) {
  const [said, setSaid] = useState("Copy");
  const copy = async () => {
    setSaid((await copyText(text)) ? "Copied" : "Not allowed");
    setTimeout(() => setSaid("Copy"), 1500);
  };
  return (
    <div class={"code" + (wraps ? " wraps" : "")}>
      {title && <div class="title">{title}</div>}
      <pre tabIndex={0}>{text}</pre>
      <button type="button" class="button quiet small copy" onClick={copy}>
        {said}
      </button>
    </div>
  );
}
