// The event log of a session, live.
import type { SessionEvent } from "../../lib/agents";
import type { Api, Problem } from "../../lib/api";
import { follow, sleep } from "../../lib/follow";
import { asProblem } from "./load";

// followLog reads the session's log from its beginning and continues with it. Events
// that arrive together are reported together.
export function followLog(api: Api, path: string, signal: AbortSignal, tell: (events: SessionEvent[]) => void, live: (now: boolean, problem?: Problem) => void): Promise<void> {
  let after = 0;
  let pending: SessionEvent[] = [];
  const flush = () => {
    if (pending.length > 0 && !signal.aborted) tell(pending);
    pending = [];
  };
  return follow<SessionEvent>({
    open: () => api.raw("GET", path + "/events", { query: { after, follow: "true" }, headers: { Accept: "text/event-stream" }, signal }),
    opened: () => live(true),
    take: (event) => {
      if (event.seq <= after) return;
      after = event.seq;
      if (pending.push(event) === 1) setTimeout(flush, 30);
    },
    closed: (error) => {
      if (signal.aborted) return false;
      const problem = error === undefined ? undefined : asProblem(error);
      live(false, problem);
      return !problem || problem.status < 400 || problem.status >= 500 || problem.status === 429; // otherwise a retry does not help
    },
    going: () => !signal.aborted,
    pause: sleep,
  });
}
