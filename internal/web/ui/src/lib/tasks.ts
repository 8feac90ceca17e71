// Scheduled tasks and their runs, as the pages read them.
import { of } from "./format";

export interface Schedule {
  type: "cron" | "interval" | "once";
  expression?: string | null;
  timezone?: string | null;
  everySeconds?: number | null;
  runAt?: string | null;
}

export interface TaskRun {
  id: string;
  scheduledFor: string;
  trigger: "schedule" | "catch_up" | "manual";
  status: "queued" | "running" | "waiting_for_input" | "completed" | "failed" | "cancelled" | "skipped";
  skipReason: string | null;
  waitingFor: "overlap" | "capacity" | null;
  instants: number;
  throughScheduledFor: string | null;
  sessionId: string | null;
  delaySeconds: number | null;
  finishedAt: string | null;
}

export interface Task {
  id: string;
  agentId: string;
  name: string;
  message: string;
  schedule: Schedule;
  status: "active" | "paused" | "finished";
  pauseReason: string | null;
  sessionPolicy: string;
  missedRunPolicy: string;
  overlapPolicy: string;
  pauseAfterFailures: number;
  nextRunAt: string | null;
  upcomingRunsAt: string[];
  lastRun: TaskRun | null;
  counters: { started: number; completed: number; failed: number; cancelled: number; skipped: number; consecutiveFailures: number };
}

export interface Preview {
  runs: { at: string; localTime: string; adjustment: "gap" | "fold" | null }[];
}

const units: [number, string][] = [[86_400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]];

// unitOf is the largest unit that a span is a whole number of.
export function unitOf(seconds: number): [size: number, name: string] {
  return units.find(([size]) => seconds % size === 0)!;
}

// every says an interval: "every hour", "every 90 minutes".
export function every(seconds: number): string {
  const [size, name] = unitOf(seconds);
  return seconds === size ? `every ${name}` : `every ${of(seconds / size, name)}`;
}

// local writes an instant as the clocks of its zone show it, which a preview
// gives with their offset: "Mon 23 Nov 2026, 09:00 +01:00".
export function local(time: string): string {
  const [, date = "", clock = "", offset = ""] = /^(\S+)T(\d\d:\d\d)(?::\d\d(?:\.\d+)?)?(.*)$/.exec(time) ?? [];
  if (!date) return time;
  const day = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short", year: "numeric", timeZone: "UTC" }).format(new Date(date + "T00:00:00Z"));
  return `${day}, ${clock} ${offset === "Z" ? "UTC" : offset}`;
}
