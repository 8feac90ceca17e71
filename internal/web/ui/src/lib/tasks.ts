// Scheduled tasks and their runs.
import { of } from "./format";

export type { Schedule, SchedulePreview as Preview, ScheduledTask as Task, TaskRun } from "./contract";

const units: [number, string][] = [[86_400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]];

// unitOf is the largest unit that a span is a whole number of.
export function unitOf(seconds: number): [size: number, name: string] {
  return units.find(([size]) => seconds % size === 0)!;
}

// every formats an interval: "every hour", "every 90 minutes".
export function every(seconds: number): string {
  const [size, name] = unitOf(seconds);
  return seconds === size ? `every ${name}` : `every ${of(seconds / size, name)}`;
}

// local formats an instant in its own zone, with the offset that a preview has:
// "Mon 23 Nov 2026, 09:00 +01:00".
export function local(time: string): string {
  const [, date = "", clock = "", offset = ""] = /^(\S+)T(\d\d:\d\d)(?::\d\d(?:\.\d+)?)?(.*)$/.exec(time) ?? [];
  if (!date) return time;
  const day = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short", year: "numeric", timeZone: "UTC" }).format(new Date(date + "T00:00:00Z"));
  return `${day}, ${clock} ${offset === "Z" ? "UTC" : offset}`;
}
