import { useState } from "preact/hooks";
import type { Call } from "../../lib/responses";
import { curl, go, javascript, python } from "../../lib/snippets";
import { Code } from "./code";
import { Dialog } from "./dialog";
import { Tabs } from "./tabs";

const kinds = [
  { id: "curl", title: "curl" },
  { id: "python", title: "Python" },
  { id: "go", title: "Go" },
  { id: "javascript", title: "JavaScript" },
];

// Snippets shows a call as code, without the key.
export function Snippets({ call, onClose }: { call: Call; onClose: () => void }) {
  const [kind, setKind] = useState("curl");
  const write = { curl, go, javascript, python }[kind]!;
  return (
    <Dialog title="The same call as code" wide onClose={onClose}>
      <Tabs label="Language" tabs={kinds} active={kind} onChange={setKind} />
      <Code text={write(call, location.origin)} />
      <p class="small muted">
        Put the key into <code>STOA_API_KEY</code>. {kind !== "curl" && "The client is the one for the Responses format, with another base URL."}
      </p>
    </Dialog>
  );
}
