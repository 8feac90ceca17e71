import { useEffect, useState } from "preact/hooks";
import { leave } from "../../lib/api";
import { Button } from "./basic";
import { Icon } from "./icon";

interface Note {
  id: number;
  text: string;
  meaning: "ok" | "failed";
  action?: { title: string; run: () => void };
  life?: number; // milliseconds
}

const listeners = new Set<(note: Note) => void>();
let last = 0;

// toast shows a short note, with an optional action.
export function toast(text: string, meaning: "ok" | "failed" = "ok", action?: Note["action"], life?: number): void {
  const note = { id: ++last, text, meaning, action, life };
  for (const listener of listeners) listener(note);
}

const grace = 5_000; // milliseconds in which a person can undo

const waiting = new Set<() => Promise<unknown>>();

// sendNow does all work that waits for an Undo, before what it needs is gone.
export const sendNow = (): Promise<unknown> => Promise.all([...waiting].map((send) => send()));

// later does work after five seconds, unless a person chooses Undo in its note. If the page is left
// before, it does it then, so that nothing is lost. The service has no such wait: an undone request is not sent.
export function later(text: string, work: () => Promise<unknown>, undone?: () => void): void {
  const send = () => {
    waiting.delete(send);
    clearTimeout(timer);
    return work();
  };
  const timer = setTimeout(send, grace);
  waiting.add(send);
  const undo = () => {
    if (!waiting.delete(send)) return;
    clearTimeout(timer);
    undone?.();
    toast("Undone: nothing was sent");
  };
  toast(text, "ok", { title: "Undo", run: undo }, grace);
}

addEventListener("pagehide", () => {
  leave(true);
  void sendNow();
});
addEventListener("pageshow", () => leave(false));

export function Toasts() {
  const [notes, setNotes] = useState<Note[]>([]);
  const drop = (id: number) => setNotes((all) => all.filter((n) => n.id !== id));
  useEffect(() => {
    const add = (note: Note) => {
      setNotes((all) => [...all.slice(-4), note]);
      setTimeout(() => drop(note.id), note.life ?? (note.action || note.meaning === "failed" ? 10_000 : 4_000));
    };
    listeners.add(add);
    return () => void listeners.delete(add);
  }, []);
  return (
    <div class="toasts" role="status" aria-live="polite">
      {notes.map((n) => (
        <div key={n.id} class={"toast " + n.meaning}>
          <Icon name={n.meaning === "ok" ? "check" : "warning"} />
          <span>{n.text}</span>
          {n.action && (
            <Button
              small
              onClick={() => {
                drop(n.id);
                n.action!.run();
              }}
            >
              {n.action.title}
            </Button>
          )}
          <Button kind="quiet" small onClick={() => drop(n.id)}>
            Dismiss
          </Button>
        </div>
      ))}
    </div>
  );
}
