// What needs attention now: one list for the Overview and the count in the navigation.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { NoticeList } from "../../lib/contract";
import { Badge, Time } from "./basic";
import { type Loaded, useLive, useLoad } from "./load";
import { useSession } from "./session";

const every = 60_000; // milliseconds between two reads

// useLiveNotices keeps the list current. It is read again with each page.
export function useLiveNotices(page: string | undefined): Loaded<NoticeList> {
  const { api, offers } = useSession();
  const reads = offers("listNotices");
  const notices = useLoad<NoticeList>((signal) => (reads ? api.get("/notices", undefined, signal) : Promise.resolve({ data: [] })), [api, page]);
  useLive(notices, every, reads);
  return notices;
}

export const NoticesContext = createContext<NoticeList>({ data: [] });

// Attention lists the notices; nothing if there are none.
export function Attention() {
  const { data } = useContext(NoticesContext);
  if (data.length === 0) return null;
  return (
    <section class="panel" aria-labelledby="attention">
      <header>
        <h2 id="attention">Needs attention</h2>
      </header>
      <div class="body stack">
        {data.map((n) => (
          <p key={n.type + n.subject + n.message}>
            <Badge meaning={n.type === "budget.threshold" ? "warning" : "failed"}>{n.scope === "service" ? "service" : "account"}</Badge> <a href={"#/" + n.consolePath}>{n.message}</a>{" "}
            {n.since && (
              <span class="small muted">
                since <Time at={n.since} />
              </span>
            )}
          </p>
        ))}
      </div>
    </section>
  );
}
