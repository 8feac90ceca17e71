import { useState } from "preact/hooks";
import { count, duration } from "../../lib/format";
import type { Raw, Reply } from "../../lib/responses";
import { Code } from "./code";
import { Dialog } from "./dialog";
import { Tabs } from "./tabs";

const pretty = (value: unknown) => JSON.stringify(value, null, 2);

// RawCall shows a call in its wire format.
export function RawCall({ raw, reply, onClose }: { raw: Raw; reply?: Reply; onClose: () => void }) {
  const [view, setView] = useState("request");
  return (
    <Dialog title="The call as it was sent" wide onClose={onClose}>
      <dl class="facts small">
        <dt>Request</dt>
        <dd class="mono breaks">{raw.requestId}</dd>
        {reply?.firstAfter !== undefined && (
          <>
            <dt>Time to first token</dt>
            <dd>{duration(reply.firstAfter)}</dd>
          </>
        )}
        {reply?.took !== undefined && (
          <>
            <dt>Time in all</dt>
            <dd>{duration(reply.took)}</dd>
          </>
        )}
        <dt>Events</dt>
        <dd>{count(raw.events.length + raw.left)}</dd>
      </dl>
      <Tabs
        label="Part"
        tabs={[
          { id: "request", title: "Request" },
          { id: "response", title: "Response" },
          { id: "events", title: "Events" },
        ]}
        active={view}
        onChange={setView}
      />
      {view === "request" && <Code text={"POST /api/v1/responses\n\n" + pretty(raw.request)} />}
      {view === "response" && (raw.response ? <Code text={pretty(raw.response)} /> : <p class="muted">None came.</p>)}
      {view === "events" && <Code text={raw.events.join("\n") + (raw.left > 0 ? `\n… and ${count(raw.left)} more` : "")} />}
    </Dialog>
  );
}
