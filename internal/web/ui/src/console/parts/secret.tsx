import { useState } from "preact/hooks";
import { copyText } from "../../lib/copy";
import type { KeyWithSecret } from "../../lib/types";
import { Button, Notice } from "./basic";
import { Code } from "./code";
import { Dialog } from "./dialog";

// Secret shows a new key, once. Only its own button closes it: a stray Escape must
// not lose the key.
export function Secret({ of, onClose }: { of: KeyWithSecret; onClose: () => void }) {
  const [said, setSaid] = useState("Copy");
  const copy = async () => setSaid((await copyText(of.secret)) ? "Copied" : "Not allowed");
  return (
    <Dialog
      stays
      title={`The key "${of.name}"`}
      onClose={onClose}
      footer={
        <>
          <Button kind="main" icon="copy" onClick={copy}>
            {said}
          </Button>
          <Button onClick={onClose}>I have kept it</Button>
        </>
      }
    >
      <Notice meaning="waiting">
        <p>
          <b>This is shown once.</b> The service keeps only a fingerprint of it. Copy it now to where it will be used.
        </p>
      </Notice>
      <Code text={of.secret} wraps />
    </Dialog>
  );
}
