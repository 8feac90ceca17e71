// Loading, and the four states of every view: loading, empty, failed, there.
import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "../../lib/api";
import { Button, Notice } from "./basic";

export interface Loaded<T> {
  data?: T;
  problem?: Problem;
  loading: boolean;
  reload: () => void;
  set: (data: T) => void;
}

// asProblem converts anything thrown to a Problem.
export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem(200, { message: error instanceof Error ? error.message : String(error) });
}

// useLoad runs load whenever one of the inputs changes, and drops results that arrive
// too late. The old data stays until the new data has arrived.
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, inputs: readonly unknown[]): Loaded<T> {
  const [state, setState] = useState<{ data?: T; problem?: Problem; loading: boolean }>({ loading: true });
  const [round, setRound] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    const stop = new AbortController();
    setState((old) => ({ data: old.data, loading: true }));
    latest.current(stop.signal).then(
      (data) => !stop.signal.aborted && setState({ data, loading: false }),
      (error) => !stop.signal.aborted && setState((old) => ({ data: old.data, problem: asProblem(error), loading: false })),
    );
    return () => stop.abort();
  }, [...inputs, round]);
  return {
    ...state,
    reload: useCallback(() => setRound((n) => n + 1), []),
    set: useCallback((data: T) => setState({ data, loading: false }), []),
  };
}

const hiddenPause = 30_000; // milliseconds between two loads while the window is hidden

// useLive loads again the given number of milliseconds after each load, and when the window
// becomes visible.
export function useLive({ loading, reload }: Pick<Loaded<unknown>, "loading" | "reload">, every: number, when = true) {
  useEffect(() => {
    if (loading || !when) return;
    const timer = setTimeout(reload, document.visibilityState === "visible" ? every : hiddenPause);
    const seen = () => document.visibilityState === "visible" && reload();
    document.addEventListener("visibilitychange", seen);
    return () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, [loading, reload, every, when]);
}

export function Failure({ problem, retry }: { problem: Problem; retry?: () => void }) {
  return (
    <Notice meaning="failed">
      <p>
        <b>{problem.offline ? "Not connected" : "Something went wrong"}</b>
      </p>
      <p>{problem.message}</p>
      {(problem.code || problem.requestId) && (
        <p class="small muted breaks">
          {problem.code && !problem.offline && <code>{problem.code}</code>} {problem.requestId && <>request {problem.requestId}</>}
        </p>
      )}
      {retry && (
        <div class="row">
          <Button small onClick={retry}>
            Try again
          </Button>
        </div>
      )}
    </Notice>
  );
}

export function Skeleton({ lines = 4 }: { lines?: number }) {
  const widths = ["w90", "w60", "w75", "w40"];
  return (
    <div class="skeletons" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, i) => (
        <span class={"skeleton " + widths[i % widths.length]} />
      ))}
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="title">{title}</p>
      {children}
    </div>
  );
}

// States shows what fits: the data as soon as there is any.
export function States<T>({ of, lines, children }: { of: Loaded<T>; lines?: number; children: (data: T) => ComponentChildren }) {
  return (
    <>
      {of.problem && (
        <div class="pad">
          <Failure problem={of.problem} retry={of.reload} />
        </div>
      )}
      {of.data !== undefined ? children(of.data) : of.loading ? <Skeleton lines={lines} /> : null}
    </>
  );
}
