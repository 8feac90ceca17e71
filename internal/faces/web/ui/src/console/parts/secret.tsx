import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { copyText } from "../../lib/copy";
import { Button, Notice } from "./basic";
import { Dialog } from "./dialog";

// Secret shows a new secret once, with its purpose. Only its own button closes it: a
// stray Escape must not lose the secret.
export function Secret({ title, text, onClose, children }: { title: string; text: string; onClose: () => void; children: ComponentChildren }) {
  const [said, setSaid] = useState("Copy");
  const copy = async () => setSaid((await copyText(text)) ? "Copied" : "Not allowed");
  return (
    <Dialog
      stays
      title={title}
      onClose={onClose}
      footer={
        <>
          <Button kind="main" icon="copy" onClick={copy}>
            {said}
          </Button>
          <Button onClick={onClose}>Done</Button>
        </>
      }
    >
      <Notice meaning="waiting">
        <p>
          <b>This is shown once.</b> {children}
        </p>
      </Notice>
      <div class="code wraps">
        <pre tabIndex={0}>{text}</pre>
      </div>
    </Dialog>
  );
}

// KeySecret shows a new key.
export function KeySecret({ of, account, onClose }: { of: { name: string; secret: string }; account?: string; onClose: () => void }) {
  return (
    <Secret title={`The key "${of.name}"${account ? ` of ${account}` : ""}`} text={of.secret} onClose={onClose}>
      Copy it now: the service stores only a hash of it.
    </Secret>
  );
}
