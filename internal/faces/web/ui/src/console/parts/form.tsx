// Forms in dialogs, and the state of an action: busy, failed, done.
import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { onceKey, type Problem } from "../../lib/api";
import { Button } from "./basic";
import { Confirm, Dialog } from "./dialog";
import { asProblem, Failure } from "./load";
import { later, toast } from "./toast";

export interface Action {
  busy: boolean;
  problem?: Problem;
  // run does the work, with an idempotency key for created objects, and reports whether
  // it succeeded.
  run: (work: (once: string) => Promise<unknown>) => Promise<boolean>;
}

// useAction holds the state of an action. Unless it can be repeated, it stays
// busy after a success, because its form is about to disappear.
export function useAction({ repeats = false } = {}): Action {
  const [problem, setProblem] = useState<Problem>();
  const [busy, setBusy] = useState(false);
  const once = useRef(onceKey());
  const run = async (work: (once: string) => Promise<unknown>) => {
    setBusy(true);
    setProblem(undefined);
    try {
      await work(once.current);
      if (!repeats) return true;
    } catch (error) {
      setProblem(asProblem(error));
      setBusy(false);
      once.current = onceKey(); // what is sent next may differ
      return false;
    }
    setBusy(false);
    once.current = onceKey();
    return true;
  };
  return { busy, problem, run };
}

// A FormDialog is a dialog with one form, which Enter or its button submits. It
// shows the problem of the action unless a field does. A preview is next to the form. missing says what the form lacks
// to be submitted.
export function FormDialog(props: { id: string; title: string; wide?: boolean; submit: string; preview?: ComponentChildren; ready?: boolean; missing?: string; action: Action; shown?: boolean; onSubmit: () => void; onClose: () => void; children: ComponentChildren }) {
  return (
    <Dialog
      title={props.title}
      form={!props.wide}
      previews={!!props.preview}
      wide={props.wide}
      onClose={props.onClose}
      footer={
        <>
          {props.missing && <span class="small muted">{props.missing}</span>}
          <Button onClick={props.onClose}>Cancel</Button>
          <button class="button main" type="submit" form={props.id} disabled={props.action.busy || props.ready === false || !!props.missing}>
            {props.submit}
          </button>
        </>
      }
    >
      <form
        id={props.id}
        class="stack form"
        onSubmit={(event) => {
          event.preventDefault();
          props.onSubmit();
        }}
      >
        {props.children}
        {props.action.problem && !props.shown && <Failure problem={props.action.problem} />}
      </form>
      {props.preview && (
        <aside class="preview" aria-label="Preview">
          {props.preview}
        </aside>
      )}
    </Dialog>
  );
}

// ConfirmAction asks before a destructive action, performs it, and shows the problem if
// it failed. said is the note after success. With undo, its note, the work waits five seconds after the
// dialog was closed, and a failure is a note too.
export function ConfirmAction(props: { title: string; action: string; waits?: boolean; undo?: string; work: () => Promise<unknown>; said?: string; onDone: (said?: string) => void; onClose: () => void; children: ComponentChildren }) {
  const { busy, problem, run } = useAction();
  const hold = (note: string) => {
    props.onClose();
    later(note, () =>
      props.work().then(
        () => props.onDone(props.said),
        (error: unknown) => toast(asProblem(error).message, "failed"),
      ),
    );
  };
  const confirm = () =>
    props.undo
      ? hold(props.undo)
      : void run(async () => {
          await props.work();
          props.onDone(props.said);
        });
  return (
    <Confirm title={props.title} action={props.action} busy={busy || props.waits} onConfirm={confirm} onClose={props.onClose}>
      {props.children}
      {problem && <Failure problem={problem} />}
    </Confirm>
  );
}
