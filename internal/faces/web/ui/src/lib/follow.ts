import { readEvents } from "./sse";

// A Source is a stream of events that can be resumed where it broke.
export interface Source<E> {
  open: () => Promise<Response>; // after the last processed event
  opened: () => void;
  take: (event: E) => void;
  closed: (error?: unknown) => boolean; // ended or broken; reports whether to open it again
  going: () => boolean; // false once it is no longer needed
  pause: (milliseconds: number) => Promise<void>;
}

const firstPause = 500; // milliseconds, doubled after each attempt without an event
const longestPause = 8000;

// follow processes events from a source while it is needed, and reconnects as often as
// the connection breaks.
export async function follow<E>(source: Source<E>): Promise<void> {
  for (let wait = firstPause; source.going(); wait = Math.min(wait * 2, longestPause)) {
    let error: unknown;
    try {
      const reply = await source.open();
      source.opened();
      for await (const event of readEvents(reply.body!)) {
        source.take(JSON.parse(event.data) as E);
        wait = firstPause;
      }
    } catch (broken) {
      error = broken;
    }
    if (!source.closed(error) || !source.going()) return;
    await source.pause(wait);
  }
}

// sleep waits for the given number of milliseconds.
export const sleep = (milliseconds: number): Promise<void> => new Promise((done) => setTimeout(done, milliseconds));
