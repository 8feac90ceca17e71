// What an agent remembers of the end user of a session, with deletion.
import { useState } from "preact/hooks";
import type { MemoryNote } from "../../lib/contract";
import { of as plural } from "../../lib/format";
import { Button, Time } from "./basic";
import { Dialog } from "./dialog";
import { ConfirmAction, useAction } from "./form";
import { Failure, States } from "./load";
import { useSession } from "./session";
import { useList } from "./table";
import { toast } from "./toast";

export function Remembered({ agentId, user, onClose }: { agentId: string; user: string; onClose: () => void }) {
  const { api, may } = useSession();
  const path = `/api-agents/${agentId}/memory/notes`;
  const query = new URLSearchParams({ externalUserId: user }).toString();
  const notes = useList<MemoryNote>(`${path}?${query}`, 100);
  const { busy, problem, run } = useAction({ repeats: true });
  const [forgetting, setForgetting] = useState(false);
  const writes = may("drive:write");
  const remove = async (n: MemoryNote) => {
    if (await run(() => api.remove(`${path}?${new URLSearchParams({ externalUserId: user, name: n.name })}`))) notes.first.reload();
  };
  if (forgetting)
    return (
      <ConfirmAction
        title="Forget this user?"
        action="Delete all notes"
        work={() => api.remove(`${path}?${query}&all=true`)}
        onDone={() => {
          toast("The agent has forgotten the user");
          onClose();
        }}
        onClose={() => setForgetting(false)}
      >
        <p>
          All notes of the agent about <b class="breaks">{user}</b> are deleted. Past sessions keep what they were shown; to remove them as well, erase the user. Nobody can undo this.
        </p>
      </ConfirmAction>
    );
  return (
    <Dialog
      title="What it remembers of this user"
      wide
      onClose={onClose}
      footer={
        <>
          {writes && notes.rows.length > 0 && (
            <Button kind="danger" disabled={busy} onClick={() => setForgetting(true)}>
              Forget the user
            </Button>
          )}
          <Button onClick={onClose}>Close</Button>
        </>
      }
    >
      <p class="small muted breaks">
        Notes about {user} that the agent or your programs wrote. Each session with this user begins with their names and first lines.
      </p>
      <States of={notes.first}>
        {() =>
          notes.rows.length === 0 ? (
            <p>It remembers nothing.</p>
          ) : (
            <div class="stack" role="list" aria-label={plural(notes.rows.length, "note")}>
              {notes.rows.map((n) => (
                <div key={n.name} role="listitem" class="remembered">
                  <div class="row">
                    <b class="breaks">{n.name}</b>
                    <span class="small muted">
                      <Time at={n.updatedAt} />
                    </span>
                    {writes && (
                      <div class="push">
                        <Button small kind="quiet" icon="trash" label={`Delete the note ${n.name}`} disabled={busy} onClick={() => void remove(n)} />
                      </div>
                    )}
                  </div>
                  <p class="pre breaks">{n.text}</p>
                </div>
              ))}
            </div>
          )
        }
      </States>
      {problem && <Failure problem={problem} />}
    </Dialog>
  );
}
