// A schedule as text, and the fields to set one, with a preview of its first
// instants.
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Problem } from "../../lib/api";
import { moment } from "../../lib/format";
import { cronWords, every, expressionOf, local, type Preview, type Repeat, repeatOf, type Schedule, unitOf } from "../../lib/tasks";
import { useSession } from "./session";
import { Badge, Field, Notice } from "./basic";
import { SelectField, TextField } from "./fields";
import { asProblem, Skeleton } from "./load";

// When shows a schedule in words; a cron expression without a short form is unchanged,
// and other expressions are added after the words if exact is set.
export function When({ of: s, exact }: { of: Schedule; exact?: boolean }) {
  switch (s.type) {
    case "cron": {
      const words = cronWords(s.expression ?? "");
      return (
        <span class="when" title={`${s.expression} ${s.timezone}`}>
          {words ?? <code class="nowrap">{s.expression}</code>} <span class="small muted nowrap">{s.timezone}</span>
          {words && exact && (
            <>
              {" "}
              <code class="small muted nowrap">{s.expression}</code>
            </>
          )}
        </span>
      );
    }
    case "interval":
      return <span>{every(s.everySeconds ?? 0)}</span>;
    default:
      return <span>once{s.runAt && <>, {moment(s.runAt)}</>}</span>;
  }
}

// A Draft is the content of the fields of a schedule.
export interface Draft {
  type: Schedule["type"];
  expression: string;
  timezone: string;
  amount: string;
  unit: number; // seconds
  at: string; // of this browser's clocks
}

const two = (n: number) => String(n).padStart(2, "0");
const stamp = (d: Date) => `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}T${two(d.getHours())}:${two(d.getMinutes())}`;

export function draftOf(s?: Schedule): Draft {
  const unit = s?.everySeconds ? unitOf(s.everySeconds)[0] : 3600;
  return {
    type: s?.type ?? "cron",
    expression: s?.expression ?? "0 9 * * MON-FRI",
    timezone: s?.timezone ?? Intl.DateTimeFormat().resolvedOptions().timeZone,
    amount: s?.everySeconds ? String(s.everySeconds / unit) : "1",
    unit,
    at: stamp(s?.runAt ? new Date(s.runAt) : new Date(Date.now() + 3_600_000)),
  };
}

// scheduleOf returns the schedule of a draft; undefined if it is incomplete.
export function scheduleOf(d: Draft): Schedule | undefined {
  switch (d.type) {
    case "cron":
      return d.expression.trim() && d.timezone.trim() ? { type: "cron", expression: d.expression.trim(), timezone: d.timezone.trim() } : undefined;
    case "interval":
      return Number(d.amount) > 0 ? { type: "interval", everySeconds: Math.round(Number(d.amount) * d.unit) } : undefined;
    case "once":
      return Number.isNaN(new Date(d.at).getTime()) ? undefined : { type: "once", runAt: new Date(d.at).toISOString() };
  }
}

const repeats: [Repeat["every"] | "own", string][] = [
  ["day", "every day"],
  ["weekdays", "Monday to Friday"],
  ["week", "every week"],
  ["month", "every month"],
  ["hour", "every hour"],
  ["own", "by a cron expression"],
];

const weekdays: [string, string][] = [
  ["MON", "Monday"],
  ["TUE", "Tuesday"],
  ["WED", "Wednesday"],
  ["THU", "Thursday"],
  ["FRI", "Friday"],
  ["SAT", "Saturday"],
  ["SUN", "Sunday"],
];

// Clock has fields for the usual cron expressions, and one for the others.
function Clock({ value, onChange }: { value: string; onChange: (expression: string) => void }) {
  const [own, setOwn] = useState(repeatOf(value) === undefined);
  const r = repeatOf(value);
  const change = (part: Partial<Repeat>) => r && onChange(expressionOf({ ...r, ...part }));
  return (
    <>
      <SelectField
        id="schedule-repeats"
        label="Repeats"
        options={repeats}
        value={own || !r ? "own" : r.every}
        onChange={(every) => {
          setOwn(every === "own");
          if (every !== "own") onChange(expressionOf({ ...(r ?? { time: "09:00", weekday: "MON", day: "1" }), every }));
        }}
      />
      {own || !r ? (
        <Field id="schedule-expression" label="Expression" hint="Minute, hour, day of month, month, day of week.">
          <input id="schedule-expression" class="input code" maxLength={256} spellcheck={false} value={value} onInput={(e) => onChange(e.currentTarget.value)} aria-describedby="schedule-expression-hint" />
        </Field>
      ) : (
        <>
          {r.every === "week" && <SelectField id="schedule-weekday" label="On" options={weekdays} value={r.weekday} onChange={(weekday) => change({ weekday })} />}
          {r.every === "month" && (
            <SelectField id="schedule-day" label="On day" hint={Number(r.day) > 28 ? "Shorter months are skipped." : undefined} options={Array.from({ length: 31 }, (_, i) => [String(i + 1), String(i + 1)] as [string, string])} value={r.day} onChange={(day) => change({ day })} />
          )}
          {r.every === "hour" ? (
            <TextField id="schedule-minute" label="At minute" type="number" min={0} max={59} step={1} value={String(Number(r.time.slice(3)))} onChange={(m) => Number(m) >= 0 && Number(m) < 60 && change({ time: "00:" + m })} />
          ) : (
            <TextField id="schedule-time" label="At" type="time" value={r.time} onChange={(time) => time && change({ time })} />
          )}
        </>
      )}
    </>
  );
}

const units: [number, string][] = [
  [60, "minutes"],
  [3600, "hours"],
  [86400, "days"],
];

export function ScheduleFields({ value, onChange }: { value: Draft; onChange: (d: Draft) => void }) {
  const zones = useMemo(() => Intl.supportedValuesOf("timeZone"), []);
  const change = (part: Partial<Draft>) => onChange({ ...value, ...part });
  return (
    <>
      <SelectField
        id="schedule-type"
        label="When"
        options={[
          ["cron", "at set times"],
          ["interval", "at an interval"],
          ["once", "once"],
        ]}
        value={value.type}
        onChange={(type) => change({ type })}
      />
      {value.type === "cron" && (
        <>
          <Clock value={value.expression} onChange={(expression) => change({ expression })} />
          <Field id="schedule-zone" label="Time zone">
            <input id="schedule-zone" class="input" list="schedule-zones" maxLength={128} spellcheck={false} value={value.timezone} onInput={(e) => change({ timezone: e.currentTarget.value })} />
            <datalist id="schedule-zones">
              {["UTC", ...zones].map((z) => (
                <option value={z} />
              ))}
            </datalist>
          </Field>
        </>
      )}
      {value.type === "interval" && (
        <div class="pair">
          <TextField id="schedule-amount" label="Every" type="number" min={1} step={1} value={value.amount} onChange={(text) => change({ amount: text })} />
          <SelectField id="schedule-unit" label="Unit" options={value.unit === 1 ? [[1, "seconds"], ...units] : units} value={value.unit} onChange={(unit) => change({ unit })} />
        </div>
      )}
      {value.type === "once" && (
        <TextField id="schedule-at" label="At" hint="In the time zone of this device." type="datetime-local" value={value.at} onChange={(text) => change({ at: text })} />
      )}
    </>
  );
}

const pause = 250; // milliseconds after the last change

// Runs shows the next five runs of a schedule, computed by the service.
export function Runs({ agentId, schedule }: { agentId: string; schedule?: Schedule }) {
  const { api } = useSession();
  const [found, setFound] = useState<{ of: string; preview?: Preview; problem?: Problem }>();
  const asked = JSON.stringify(schedule);
  useEffect(() => {
    if (!asked) return;
    const stop = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const reply = await api.raw("POST", `/api-agents/${agentId}/scheduled-tasks/preview`, { body: { schedule: JSON.parse(asked), count: 5 }, signal: stop.signal });
        setFound({ of: asked, preview: await reply.json() });
      } catch (error) {
        if (!stop.signal.aborted) setFound({ of: asked, problem: asProblem(error) });
      }
    }, pause);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [api, agentId, asked]);
  if (!asked) return null;
  return (
    <div role="status" aria-label="Preview">
      {!found ? (
        <Skeleton lines={3} />
      ) : found.problem ? (
        <Notice meaning="failed">{found.problem.message}</Notice>
      ) : (
        <div class={found.of === asked ? "" : "muted"}>
          <b>It will run</b> <When of={schedule!} />
          {found.preview!.runs.length === 0 && <p class="muted">never: the schedule has ended</p>}
          <ul class="instants">
            {found.preview!.runs.map((r) => (
              <li>
                <time dateTime={r.at} title={moment(r.at)}>
                  {local(r.localTime)}
                </time>{" "}
                {r.adjustment === "gap" && <Badge meaning="info">clocks go forward</Badge>}
                {r.adjustment === "fold" && <Badge meaning="info">clocks go back: the first time</Badge>}
              </li>
            ))}
          </ul>
        </div>
      )}
    </div>
  );
}
