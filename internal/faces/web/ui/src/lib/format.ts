// Numbers, times and amounts for people.
import type { LongInput, PriceHours } from "./contract";

const whole = new Intl.NumberFormat("en");
const fine = new Intl.NumberFormat("en", { maximumFractionDigits: 4 });

export const count = (n: number): string => whole.format(n);

// of formats a count with its noun: "1 call", "2 calls".
export const of = (n: number, thing: string): string => `${whole.format(n)} ${thing}${n === 1 ? "" : "s"}`;

// amounts returns a function that formats micro-credits as credits with at most the given number
// of decimals, rounded half away from zero. With aligned it shows all of them, for a column, and
// otherwise at least two. An amount that is too small to show is "<0.0001". The command line has
// the same rule.
function amounts(decimals: number, aligned: boolean): (micro: number) => string {
  const unit = 10 ** (6 - decimals);
  const shown = new Intl.NumberFormat("en", { minimumFractionDigits: aligned ? decimals : 2, maximumFractionDigits: decimals });
  return (micro) => {
    const size = Math.abs(micro);
    const tooSmall = size > 0 && size < unit;
    // The quotient has no more decimals than are shown: only Math.round rounds.
    const text = shown.format((tooSmall ? 1 : Math.round(size / unit)) / 10 ** decimals);
    return (tooSmall ? (micro < 0 ? ">" : "<") : "") + (micro < 0 ? "-" : "") + text;
  };
}

export const credits = amounts(4, false);
export const columnCredits = amounts(4, true);

// The amounts of receipts and of the books are exact.
export const exactCredits = amounts(6, false);
export const exactColumn = amounts(6, true);

export const micro = (n: number): string => `${whole.format(n)} micro-credits`;

// perMillion formats a price in credits per million tokens.
export const perMillion = credits;

// rulesInWords returns the rules of a price: "× 2 / × 1.5 above 200,000 tokens; × 2 from 09:00 to 12:00 Asia/Shanghai".
export function rulesInWords(p: { above?: LongInput; hours?: PriceHours[] }): string {
  return [
    ...(p.above ? [`× ${p.above.input} / × ${p.above.output} above ${count(p.above.tokens)} tokens`] : []),
    ...(p.hours ?? []).map((h) => `× ${h.factor} from ${h.from} to ${h.to} ${h.days ? h.days.join(", ") + " " : ""}${h.zone}`),
  ].join("; ");
}

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

// ago formats the distance of a time from now.
export function ago(iso: string, now = Date.now()): string {
  const seconds = (new Date(iso).getTime() - now) / 1000;
  const steps: [number, Intl.RelativeTimeFormatUnit][] = [
    [60, "second"], [60, "minute"], [24, "hour"], [30, "day"], [12, "month"], [Infinity, "year"],
  ];
  let value = seconds;
  for (const [size, unit] of steps) {
    if (Math.abs(Math.round(value)) < size) return Math.abs(seconds) < 5 ? "just now" : relative.format(Math.round(value), unit);
    value /= size;
  }
  return iso;
}

const exact = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
export const moment = (iso: string): string => exact.format(new Date(iso));

const clock = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" });

// local formats a time in the local time zone, short enough for a column.
export const local = (iso: string): string => clock.format(new Date(iso)).replace(",", "");

// inputTime formats a time for a field of type datetime-local.
export function inputTime(iso: string): string {
  const at = new Date(iso);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

const short = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
export const day = (date: string): string => short.format(new Date(date + "T00:00:00Z"));

// zone is the time zone of the browser, or UTC if it has none with a name.
export const zone = ((name) => (!name || name === "Etc/Unknown" ? "UTC" : name))(new Intl.DateTimeFormat().resolvedOptions().timeZone);

// midnight returns the beginning of the day of a time, in the time zone of the browser, moved by
// a number of days.
export function midnight(at: number, days = 0): number {
  const day = new Date(at);
  return new Date(day.getFullYear(), day.getMonth(), day.getDate() + days).getTime();
}

// dayOf returns the day of a time in the time zone of the browser, as 2026-11-20.
export function dayOf(at: number): string {
  const day = new Date(at);
  return [String(day.getFullYear()).padStart(4, "0"), String(day.getMonth() + 1).padStart(2, "0"), String(day.getDate()).padStart(2, "0")].join("-");
}

// utcDay returns the UTC day at the given number of days from today.
export function utcDay(offset: number, now = new Date()): string {
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate() + offset)).toISOString().slice(0, 10);
}

// size formats a number of bytes.
export function size(bytes: number): string {
  if (bytes < 1024) return of(bytes, "byte");
  for (const [unit, factor] of [["KiB", 1024], ["MiB", 1024 ** 2]] as const) {
    if (bytes < factor * 1024) return `${fine.format(Math.round((bytes / factor) * 10) / 10)} ${unit}`;
  }
  return `${fine.format(Math.round((bytes / 1024 ** 3) * 10) / 10)} GiB`;
}

// isLow reports whether credits are low: less than a twentieth of the grants is left.
export const isLow = (available: number, granted: number): boolean => available * 20 < granted;
