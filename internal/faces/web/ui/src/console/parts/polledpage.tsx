// A page that reads one thing again and again.
import type { ComponentChildren } from "preact";
import { Button } from "./basic";
import { States, useLive, useLoad } from "./load";
import { useSession } from "./session";

interface Page<T> {
  title: string;
  path: string; // of what is read
  every: number; // milliseconds between two reads
  children: (data: T) => ComponentChildren;
}

export function PolledPage<T>({ title, path, every, children }: Page<T>) {
  const { api } = useSession();
  const read = useLoad((signal) => api.get<T>(path, undefined, signal), [api]);
  useLive(read, every);
  return (
    <>
      <header class="head">
        <h1>{title}</h1>
        <div class="push">
          <Button icon="again" disabled={read.loading} onClick={read.reload}>
            Refresh
          </Button>
        </div>
      </header>
      <States of={read}>{children}</States>
    </>
  );
}
