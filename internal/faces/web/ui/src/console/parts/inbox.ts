// The tool calls that wait for an approval: one live list for the navigation, the title of the
// window and the inbox, so that they show the same number.
import { createContext } from "preact";
import { useContext, useRef, useState } from "preact/hooks";
import type { OpenInput, PendingToolCall } from "../../lib/contract";
import { count } from "../../lib/format";
import type { List } from "../../lib/types";
import { type Loaded, useLive, useLoad } from "./load";
import { useSession } from "./session";

export interface Inbox {
  inputs: Loaded<List<OpenInput>>;
  calls: string; // the number of calls to decide; empty if there are none
  more: () => void; // shows another page
}

const limit = 50; // inputs of a page, the oldest first
const every = 5000; // milliseconds between two reads while calls wait, or after a failure
const waitSeconds = 30; // of a read while none do: requests count against the limit per minute

// toDecide reports whether a call of an approval waits for its decision.
const toDecide = (c: PendingToolCall): boolean => !c.decision && c.status !== "done";

// useLiveInbox keeps the list current if the key may read it. While it is empty and the window
// is visible, each read waits for a call.
export function useLiveInbox(): Inbox {
  const { api, may, offers } = useSession();
  const reads = may("sessions:read") && offers("listInputs");
  const waits = useRef(false);
  const [pages, setPages] = useState(1);
  // Each read gets all pages that are shown, so that they stay current together.
  const inputs = useLoad<List<OpenInput>>(
    async (signal) => {
      let all: List<OpenInput> = { data: [], nextCursor: null, hasMore: reads };
      for (let page = 0; page < pages && all.hasMore; page++) {
        const next = await api.get<List<OpenInput>>("/inputs", { kind: "tool_approval", limit, cursor: all.nextCursor ?? undefined, waitSeconds: waits.current ? waitSeconds : undefined }, signal);
        all = { ...next, data: [...all.data, ...next.data] };
      }
      return all;
    },
    [api, pages],
  );
  waits.current = !inputs.problem && inputs.data?.data.length === 0 && document.visibilityState === "visible";
  useLive(inputs, waits.current ? 1000 : every, reads);
  const n = inputs.data?.data.reduce((n, input) => n + input.calls.filter(toDecide).length, 0) ?? 0;
  return { inputs, more: () => setPages(pages + 1), calls: n === 0 ? "" : count(n) + (inputs.data!.hasMore ? "+" : "") };
}

export const InboxContext = createContext<Inbox | null>(null);

export function useInbox(): Inbox {
  const inbox = useContext(InboxContext);
  if (!inbox) throw new Error("a page was shown without an inbox");
  return inbox;
}
