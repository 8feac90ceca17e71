// The ratings of answers, by visitors and members, with their comments.
import type { Feedback as Rated } from "../../lib/contract";
import { Badge, Time } from "../parts/basic";
import { Download } from "../parts/download";
import { Empty } from "../parts/load";
import { Filters, Pick } from "../parts/filter";
import { PickOf, sources } from "../parts/picker";
import { Pages, useList } from "../parts/table";
import { useFilter } from "../parts/router";
import { useSession } from "../parts/session";
import { ratings } from "./sessions";

const filters = ["agentId", "rating", "by"];

export function Feedback() {
  const { may, offers } = useSession();
  const [filter, change] = useFilter();
  const asked = Object.fromEntries(Object.entries(filter).filter(([name, value]) => filters.includes(name) && value)) as Record<string, string>;
  const query = new URLSearchParams(asked);
  const pages = useList<Rated>("/feedback" + (query.size ? "?" + query : ""), 30);
  const shared = { filter, change };
  return (
    <>
      <header class="head">
        <h1>Feedback</h1>
        <div class="push">
          <Download<Rated>
            path="/feedback"
            query={() => asked}
            name="feedback.csv"
            columns={[
              ["created", (r) => r.createdAt],
              ["agentId", (r) => r.agentId],
              ["agentName", (r) => r.agentName],
              ["sessionId", (r) => r.sessionId],
              ["externalUserId", (r) => r.externalUserId],
              ["turn", (r) => r.turn],
              ["messageId", (r) => r.messageId],
              ["by", (r) => r.by],
              ["rating", (r) => r.rating],
              ["comment", (r) => r.comment],
              ["reply", (r) => r.reply],
            ]}
          />
        </div>
      </header>
      <section class="panel">
        <Filters names={filters} {...shared}>
          {may("agents:read") && offers("listAgents") && <PickOf name="agentId" label="Agent" source={sources.agents} fixed={[{ id: "", title: "All" }]} {...shared} />}
          <Pick name="rating" label="Rating" choices={ratings} {...shared} />
          <Pick name="by" label="By" choices={[{ id: "", title: "All" }, { id: "visitor", title: "Visitors" }, { id: "account", title: "Members and keys" }]} {...shared} />
        </Filters>
        <Pages
          of={pages}
          label="Feedback"
          empty={
            <Empty title={query.size ? "No matching feedback" : "No feedback yet"}>
              <p>Visitors rate answers in the chats of embeds, and you do in a session, with the thumbs below each answer.</p>
            </Empty>
          }
          columns={[
            {
              title: "Answer",
              show: (r) => (
                <>
                  <a href={`#/agents/${r.agentId}/sessions/${r.sessionId}`} class="clamp">
                    {r.reply || r.sessionTitle || "Session"}
                  </a>
                  {r.comment && <div class="small breaks">{r.comment}</div>}
                </>
              ),
            },
            { title: "Rating", keep: 3, show: (r) => <Badge meaning={r.rating === "up" ? "ok" : "failed"}>{r.rating === "up" ? "good" : "bad"}</Badge> },
            { title: "By", show: (r) => <span class="breaks">{r.by === "visitor" ? (r.externalUserId ?? "visitor") : "member or key"}</span> },
            { title: "Agent", show: (r) => <a href={"#/agents/" + r.agentId} class="clamp">{r.agentName}</a> },
            { title: "When", keep: 2, show: (r) => <Time at={r.createdAt} /> },
          ]}
        />
      </section>
    </>
  );
}
