import { useEffect, useState } from "preact/hooks";
import { Button } from "./basic";
import { Icon } from "./icon";

interface Note {
  id: number;
  text: string;
  meaning: "ok" | "failed";
  action?: { title: string; run: () => void };
}

const listeners = new Set<(note: Note) => void>();
let last = 0;

// toast shows a short note, with an optional action.
export function toast(text: string, meaning: "ok" | "failed" = "ok", action?: Note["action"]): void {
  const note = { id: ++last, text, meaning, action };
  for (const listener of listeners) listener(note);
}

export function Toasts() {
  const [notes, setNotes] = useState<Note[]>([]);
  const drop = (id: number) => setNotes((all) => all.filter((n) => n.id !== id));
  useEffect(() => {
    const add = (note: Note) => {
      setNotes((all) => [...all.slice(-2), note]);
      setTimeout(() => drop(note.id), note.action || note.meaning === "failed" ? 10_000 : 4_000);
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
