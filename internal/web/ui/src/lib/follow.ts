import { readEvents } from "./sse";

// A Source is a stream of events that can be opened again where it broke.
export interface Source<E> {
  open: () => Promise<Response>; // behind the last event that was taken
  opened: () => void;
  take: (event: E) => void;
  closed: (error?: unknown) => boolean; // ended or broken; reports whether to open it again
  going: () => boolean; // false once nobody needs it
  pause: (milliseconds: number) => Promise<void>;
}

const firstPause = 500; // milliseconds, doubled after each attempt without an event
const longestPause = 8000;

// follow takes events from a source for as long as it is needed, however often
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

// sleep waits that many milliseconds.
export const sleep = (milliseconds: number): Promise<void> => new Promise((done) => setTimeout(done, milliseconds));
