// The sessions of an agent, and how to start one.
import { useState } from "preact/hooks";
import type { Session } from "../../lib/agents";
import { Amount, Button, Time } from "../parts/basic";
import { useAction } from "../parts/form";
import { Empty, Failure } from "../parts/load";
import { Status } from "../parts/status";
import { Pages, useList } from "../parts/table";
import { go } from "../router";
import { useSession } from "../session";

export function SessionsView({ agentId }: { agentId: string }) {
  const { may } = useSession();
  const pages = useList<Session>(`/api-agents/${agentId}/sessions`, 20);
  return (
    <>
      {may("sessions:write") && <Start agentId={agentId} />}
      <section class="panel">
        <Pages
          of={pages}
          label="Sessions"
          empty={
            <Empty title="No sessions yet">
              <p>A session is a conversation with the agent. It runs here even when this page is closed.</p>
            </Empty>
          }
          columns={[
            {
              title: "Session",
              show: (s) => (
                <a href={`#/agents/${agentId}/sessions/${s.id}`} class="clamp">
                  {s.title || s.reply?.slice(0, 80) || <span class="mono">{s.id}</span>}
                </a>
              ),
            },
            { title: "State", show: (s) => <Status of={s.status} /> },
            { title: "Started by", show: (s) => <span class="nowrap">{s.trigger.type}</span> },
            { title: "Turns", number: true, show: (s) => s.turn.number },
            { title: "Credits", number: true, show: (s) => <Amount of={s.usage.creditsMicro} /> },
            { title: "Changed", show: (s) => <Time at={s.updatedAt} /> },
          ]}
        />
      </section>
    </>
  );
}

function Start({ agentId }: { agentId: string }) {
  const { api } = useSession();
  const [message, setMessage] = useState("");
  const [once, setOnce] = useState(false);
  const action = useAction();
  const submit = () => {
    if (!message.trim() || action.busy) return;
    void action.run(async (key) => {
      const made = await api.create<Session>(`/api-agents/${agentId}/sessions`, { message, mode: once ? "once" : "chat" }, key);
      go(`agents/${agentId}/sessions/${made.id}`);
    });
  };
  return (
    <form
      class="stack"
      onSubmit={(e) => {
        e.preventDefault();
        submit();
      }}
    >
      <label class="unseen" for="start">
        Message
      </label>
      <textarea
        id="start"
        class="input"
        rows={2}
        placeholder="Start a session with a message"
        value={message}
        onInput={(e) => setMessage(e.currentTarget.value)}
        onKeyDown={(e) => {
          if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
            e.preventDefault();
            submit();
          }
        }}
      />
      <div class="row">
        <label class="check small muted">
          <input type="checkbox" checked={once} onChange={(e) => setOnce(e.currentTarget.checked)} /> one shot: it asks nothing back and takes no further message
        </label>
        <div class="push">
          <Button kind="main" type="submit" icon="send" disabled={action.busy || !message.trim()}>
            Start
          </Button>
        </div>
      </div>
      {action.problem && <Failure problem={action.problem} />}
    </form>
  );
}
