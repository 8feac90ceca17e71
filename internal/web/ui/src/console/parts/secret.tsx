import type { KeyWithSecret } from "../../lib/types";
import { Button, Notice } from "./basic";
import { Code } from "./code";
import { Dialog } from "./dialog";

// Secret shows a new key, once.
export function Secret({ of, onClose }: { of: KeyWithSecret; onClose: () => void }) {
  return (
    <Dialog
      title={`The key "${of.name}"`}
      onClose={onClose}
      footer={
        <Button kind="main" onClick={onClose}>
          I have kept it
        </Button>
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
