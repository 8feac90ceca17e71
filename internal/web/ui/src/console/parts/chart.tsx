import { useEffect, useRef, useState } from "preact/hooks";
import { day as dayName } from "../../lib/format";
import { Table } from "./table";

export interface Bar {
  day: string; // as 2026-11-20, or another time range in words
  parts: Record<string, number>; // by series
}

const colours = 5; // and a sixth for the rest

// series orders the names by their sums and folds the small ones into "others".
export function series(bars: Bar[]): string[] {
  const sums = new Map<string, number>();
  for (const bar of bars) for (const [name, n] of Object.entries(bar.parts)) sums.set(name, (sums.get(name) ?? 0) + n);
  return [...sums].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0])).map(([name]) => name);
}

// ticks returns up to five round numbers from 0 to at least max.
export function ticks(max: number): number[] {
  if (max <= 0) return [0, 1];
  const raw = max / 4;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw)!;
  const out: number[] = [];
  for (let i = 0; i * step < max + step; i++) out.push(i * step);
  return out;
}

const nameOf = (bar: Bar): string => (/^\d{4}-\d\d-\d\d$/.test(bar.day) ? dayName(bar.day) : bar.day);

// A Chart draws bars for days, stacked by series, with the same numbers as a
// table below. Its numbers are shown for the bar under the pointer, the finger or the
// focus, which the arrow keys move; Enter and a click call onPick.
export function Chart({ bars, label, amount, onPick }: { bars: Bar[]; label: string; amount: (n: number) => string; onPick?: (bar: Bar) => void }) {
  const [shownAt, setShownAt] = useState<number>();
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWidth(Math.floor(entry!.contentRect.width)));
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, []);

  const names = series(bars);
  const shown = names.slice(0, colours);
  const folded = names.length > colours;
  const rows = folded ? [...shown, "others"] : shown;
  const part = (bar: Bar, name: string) =>
    name === "others" && folded ? names.slice(colours).reduce((sum, n) => sum + (bar.parts[n] ?? 0), 0) : (bar.parts[name] ?? 0);
  const total = (bar: Bar) => Object.values(bar.parts).reduce((a, b) => a + b, 0);

  const height = 180;
  const left = 48;
  const bottom = 24;
  const scale = ticks(Math.max(...bars.map(total), 0));
  const top = scale.at(-1)!;
  const y = (n: number) => 8 + (height - 8 - bottom) * (1 - n / top);
  const slot = (width - left) / Math.max(bars.length, 1);
  const wide = Math.max(2, Math.min(36, slot * 0.7));
  const every = Math.ceil(52 / Math.max(slot, 1));

  return (
    <div class="chart">
      <div ref={box} class="plot">
        {width > 0 && (
          <svg width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="group" aria-label={label} onMouseLeave={() => setShownAt(undefined)}>
            {scale.map((n) => (
              <g>
                <line class="grid" x1={left} x2={width} y1={y(n)} y2={y(n)} />
                <text x={left - 8} y={y(n) + 4} text-anchor="end">
                  {amount(n)}
                </text>
              </g>
            ))}
            {bars.map((bar, i) => {
              let sum = 0;
              const x = left + slot * i + (slot - wide) / 2;
              return (
                <g
                  class="bar-of"
                  key={bar.day}
                  role={onPick ? "button" : "img"}
                  tabIndex={i === (shownAt ?? bars.length - 1) ? 0 : -1}
                  aria-label={[`${nameOf(bar)}: ${amount(total(bar))}`, ...rows.filter((n) => part(bar, n) > 0).map((n) => `${n}: ${amount(part(bar, n))}`)].join(", ")}
                  onMouseEnter={() => setShownAt(i)}
                  onFocus={() => setShownAt(i)}
                  onBlur={() => setShownAt(undefined)}
                  onClick={() => (onPick ? onPick(bar) : setShownAt(i))}
                  onKeyDown={(event) => {
                    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
                    if (event.key === "Enter" && onPick) onPick(bar);
                    const to = event.currentTarget.parentElement?.querySelectorAll<SVGGElement>(".bar-of")[i + step];
                    if (!step || !to) return;
                    event.preventDefault();
                    to.focus();
                  }}
                >
                  <rect x={left + slot * i} y={0} width={slot} height={height - bottom} fill="transparent" />
                  {rows.map((name, k) => {
                    const n = part(bar, name);
                    if (n <= 0) return null;
                    const from = y(sum);
                    sum += n;
                    return <rect class={"c" + (folded && k === colours ? 6 : k + 1)} x={x} y={y(sum)} width={wide} height={Math.max(from - y(sum) - (k > 0 ? 0.5 : 0), 0.5)} rx={1} />;
                  })}
                  {(bars.length - 1 - i) % every === 0 && (
                    <text x={left + slot * (i + 0.5)} y={height - 6} text-anchor="middle">
                      {nameOf(bar)}
                    </text>
                  )}
                </g>
              );
            })}
          </svg>
        )}
      </div>
      <p class="tip small" aria-hidden="true">
        {shownAt !== undefined && bars[shownAt] ? (
          <>
            <b>{nameOf(bars[shownAt])}</b> {amount(total(bars[shownAt]))}
            {rows.length > 1 &&
              rows
                .filter((n) => part(bars[shownAt]!, n) > 0)
                .map((n) => (
                  <span class="nowrap">
                    <span class="muted"> · {n}</span> {amount(part(bars[shownAt]!, n))}
                  </span>
                ))}
          </>
        ) : (
          <span class="muted">{onPick ? "Point at a bar for its numbers; choose it for its calls." : "Point at a bar for its numbers."}</span>
        )}
      </p>
      <ul class="legend">
        {rows.map((name, k) => (
          <li>
            <span class={"swatch c" + (folded && k === colours ? 6 : k + 1)} />
            {name} <span class="muted">{amount(bars.reduce((sum, bar) => sum + part(bar, name), 0))}</span>
          </li>
        ))}
      </ul>
      <details class="as-table">
        <summary>As a table</summary>
        <Table
          label={label}
          rows={bars.filter((b) => total(b) > 0).reverse().map((b) => ({ id: b.day, bar: b }))}
          columns={[
            { title: "Day", show: (r) => <span class="nowrap">{nameOf(r.bar)}</span> },
            ...rows.map((name) => ({ title: name, number: true, show: (r: { bar: Bar }) => (part(r.bar, name) ? amount(part(r.bar, name)) : "–") })),
            { title: "All", number: true, show: (r) => <b>{amount(total(r.bar))}</b> },
          ]}
        />
      </details>
    </div>
  );
}
