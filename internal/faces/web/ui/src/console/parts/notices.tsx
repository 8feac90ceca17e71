// What needs attention now: one list for the Overview and the count in the navigation.
import { createContext } from "preact";
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

export const NoticesContext = createContext<NoticeList | undefined>(undefined);

// Notices are the entries of the list.
export function Notices({ of: { data } }: { of: NoticeList }) {
  return (
    <>
      {data.map((n) => (
        <li key={n.type + n.subject + n.message}>
          <Badge meaning={n.type === "chat.person_requested" ? "waiting" : n.type === "budget.threshold" || n.type === "skill.withheld" ? "warning" : "failed"}>{n.scope === "service" ? "service" : "account"}</Badge>
          <div>
            <a href={"#/" + n.consolePath}>{n.message}</a>{" "}
            {n.since && (
              <div class="small muted">
                since <Time at={n.since} />
              </div>
            )}
          </div>
        </li>
      ))}
    </>
  );
}
