// A page for operators that reads one thing again and again.
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { useSession } from "../session";
import { Button } from "./basic";
import { States, useLoad } from "./load";
import { MissingScope } from "./missing";

interface Page<T> {
  title: string;
  path: string; // of what is read
  every: number; // milliseconds between two reads
  children: (data: T) => ComponentChildren;
}

export function Watched<T>(props: Page<T>) {
  const { may } = useSession();
  return may("operator") ? (
    <Watching {...props} />
  ) : (
    <>
      <header class="head">
        <h1>{props.title}</h1>
      </header>
      <MissingScope scope="operator" what="run the service" />
    </>
  );
}

function Watching<T>({ title, path, every, children }: Page<T>) {
  const { api } = useSession();
  const read = useLoad((signal) => api.get<T>(path, undefined, signal), [api]);
  useEffect(() => {
    const timer = setInterval(() => document.visibilityState === "visible" && read.reload(), every);
    return () => clearInterval(timer);
  }, [read.reload]);
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
