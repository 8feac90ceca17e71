// Scheduled tasks and their runs.
import { of } from "./format";

export type { Schedule, SchedulePreview as Preview, ScheduledTask as Task, TaskRun } from "./contract";

const units: [number, string][] = [[86_400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]];

// unitOf returns the largest unit that divides a duration.
export function unitOf(seconds: number): [size: number, name: string] {
  return units.find(([size]) => seconds % size === 0)!;
}

// every formats an interval: "every hour", "every 90 minutes".
export function every(seconds: number): string {
  const [size, name] = unitOf(seconds);
  return seconds === size ? `every ${name}` : `every ${of(seconds / size, name)}`;
}

// local formats an instant in its own time zone, with the offset from the preview: "Mon
// 23 Nov 2026, 09:00 +01:00".
export function local(time: string): string {
  const [, date = "", clock = "", offset = ""] = /^(\S+)T(\d\d:\d\d)(?::\d\d(?:\.\d+)?)?(.*)$/.exec(time) ?? [];
  if (!date) return time;
  const day = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short", year: "numeric", timeZone: "UTC" }).format(new Date(date + "T00:00:00Z"));
  return `${day}, ${clock} ${offset === "Z" ? "UTC" : offset}`;
}

const weekdays = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const months = ["", "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const shorthands: Record<string, string> = { "@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *" };

// names formats a field of names, such as "MON-FRI" or "1,3"; undefined if it has more
// than names, ranges and commas.
function names(field: string, of: string[]): string | undefined {
  const name = (text: string) => (/^\d+$/.test(text) ? of[Number(text)] : of.find((n) => n.toUpperCase() === text.toUpperCase() && n !== "")) || undefined;
  const parts = field.split(",").map((part) => {
    const ends = part.split("-").map(name);
    return ends.length <= 2 && !ends.includes(undefined) ? ends.join("–") : undefined;
  });
  return parts.includes(undefined) ? undefined : parts.join(", ");
}

const number = /^\d+$/;
const pad = (text: string) => text.padStart(2, "0");

// cronWords returns a cron expression in words, "Mon–Fri 09:00"; undefined if the
// expression itself is clearer.
export function cronWords(expression: string): string | undefined {
  const [minute = "", hour = "", day = "", month = "", weekday = "", ...more] = (shorthands[expression.trim().toLowerCase()] ?? expression.trim()).split(/\s+/);
  if (!weekday || more.length > 0) return undefined;
  const steps = (field: string, whole: number) => {
    const n = Number(/^\*\/(\d+)$/.exec(field)?.[1]);
    return n > 1 && whole % n === 0 ? n : undefined;
  };
  let clock: string | undefined;
  if (number.test(minute) && hour.split(",").every((h) => number.test(h))) clock = hour.split(",").map((h) => `${pad(h)}:${pad(minute)}`).join(", ");
  else if (minute === "*" && hour === "*") clock = "every minute";
  else if (steps(minute, 60) && hour === "*") clock = every(steps(minute, 60)! * 60);
  else if (number.test(minute) && hour === "*") clock = minute === "0" ? "every hour" : `every hour at :${pad(minute)}`;
  else if (minute === "0" && steps(hour, 24)) clock = every(steps(hour, 24)! * 3600);
  if (!clock) return undefined;

  const daily = clock.startsWith("every") ? "" : "every day ";
  if (day === "*" && month === "*") {
    const on = weekday === "*" ? undefined : names(weekday, weekdays);
    if (weekday === "*") return daily + clock;
    return on && `${on} ${clock}`;
  }
  // With a day and a weekday, either is enough: that has no short form.
  if (weekday !== "*" || !day.split(",").every((d) => number.test(d))) return undefined;
  const on = day.split(",").map(Number).join(", ");
  if (month === "*") return `day ${on} of each month ${clock}`;
  const during = names(month, months);
  return during && `${on} ${during} ${clock}`;
}

// A Repeat is the part of cron expressions that a form has fields for.
export interface Repeat {
  every: "hour" | "day" | "weekdays" | "week" | "month";
  time: string; // HH:MM; for an hour only the minutes count
  weekday: string; // MON
  day: string; // of the month
}

const repeat = /^(\d{1,2}) (\d{1,2}|\*) (\d{1,2}|\*) \* (\*|MON-FRI|SUN|MON|TUE|WED|THU|FRI|SAT)$/i;

// repeatOf returns the fields of a cron expression; undefined if they cannot express it.
export function repeatOf(expression: string): Repeat | undefined {
  const m = repeat.exec(expression.trim().replace(/\s+/g, " "));
  if (!m) return undefined;
  const [, minute = "", hour = "", day = "", weekday = ""] = m;
  if (Number(minute) > 59 || Number(hour) > 23 || (day !== "*" && (Number(day) < 1 || Number(day) > 31))) return undefined;
  const fields = { time: `${pad(hour === "*" ? "0" : hour)}:${pad(minute)}`, weekday: "MON", day: "1" };
  if (hour === "*") return day === "*" && weekday === "*" ? { ...fields, every: "hour" } : undefined;
  if (day !== "*") return weekday === "*" ? { ...fields, every: "month", day: String(Number(day)) } : undefined;
  if (weekday === "*") return { ...fields, every: "day" };
  return weekday.toUpperCase() === "MON-FRI" ? { ...fields, every: "weekdays" } : { ...fields, every: "week", weekday: weekday.toUpperCase() };
}

// expressionOf returns the cron expression of the fields.
export function expressionOf(r: Repeat): string {
  const [hour = "0", minute = "0"] = r.time.split(":").map((n) => String(Number(n)));
  switch (r.every) {
    case "hour":
      return `${minute} * * * *`;
    case "day":
      return `${minute} ${hour} * * *`;
    case "weekdays":
      return `${minute} ${hour} * * MON-FRI`;
    case "week":
      return `${minute} ${hour} * * ${r.weekday}`;
    case "month":
      return `${minute} ${hour} ${r.day} * *`;
  }
}
