import { useLayoutEffect, useRef, useState } from "preact/hooks";
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

const outlying = 4; // times the next lower bar

// cutAt returns the value at which the highest bars are cut, so that they do not flatten the
// others: the height of the rest, if at most a tenth of the bars are much higher.
function cutAt(totals: number[]): number {
  const down = totals.toSorted((a, b) => b - a);
  for (let i = 1; i <= Math.ceil(totals.length / 10) && i < down.length; i++) {
    if (down[i]! > 0 && down[i - 1]! > outlying * down[i]!) return down[i]! * 1.25;
  }
  return down[0] ?? 0;
}

// A Chart draws bars for days, stacked by series, with the same numbers as a
// table below. A bar that is much higher than the others is cut, with a mark and its number.
// The numbers of the bar under the pointer, the finger or the focus are shown beside it; arrow
// keys move the focus, Enter and a click call onPick. unit is shown at the axis.
export function Chart({ bars, label, unit, amount, onPick }: { bars: Bar[]; label: string; unit: string; amount: (n: number) => string; onPick?: (bar: Bar) => void }) {
  const [shownAt, setShownAt] = useState<number>();
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWidth(Math.floor(entry!.contentRect.width)));
    watch.observe(box.current!);
    setWidth(Math.floor(box.current!.getBoundingClientRect().width));
    return () => watch.disconnect();
  }, []);

  const names = series(bars);
  const shown = names.slice(0, colours);
  const folded = names.length > colours;
  const rows = folded ? [...shown, "others"] : shown;
  const colour = (k: number) => "c" + (folded && k === colours ? 6 : k + 1);
  const part = (bar: Bar, name: string) =>
    name === "others" && folded ? names.slice(colours).reduce((sum, n) => sum + (bar.parts[n] ?? 0), 0) : (bar.parts[name] ?? 0);
  const total = (bar: Bar) => Object.values(bar.parts).reduce((a, b) => a + b, 0);

  const height = 220;
  const left = 56;
  const above = 28;
  const bottom = 24;
  const scale = ticks(cutAt(bars.map(total)));
  const top = scale.at(-1)!;
  const y = (n: number) => above + (height - above - bottom) * (1 - Math.min(n, top) / top);
  const slot = (width - left) / Math.max(bars.length, 1);
  const wide = Math.max(2, Math.min(40, slot * 0.66));
  const every = Math.ceil(52 / Math.max(slot, 1));
  const tipped = shownAt === undefined ? undefined : bars[shownAt];

  return (
    <div class="chart">
      <div ref={box} class="plot">
        {width > 0 && (
          <svg width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="group" aria-label={label} onMouseLeave={() => setShownAt(undefined)}>
            <text x={0} y={12}>
              {unit}
            </text>
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
              const all = total(bar);
              return (
                <g
                  class={"bar-of" + (i === shownAt ? " shown" : "")}
                  key={bar.day}
                  role={onPick ? "button" : "img"}
                  tabIndex={i === (shownAt ?? bars.length - 1) ? 0 : -1}
                  aria-label={[`${nameOf(bar)}: ${amount(all)}`, ...rows.filter((n) => part(bar, n) > 0).map((n) => `${n}: ${amount(part(bar, n))}`)].join(", ")}
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
                  <rect class="slot" x={left + slot * i} y={above - 8} width={slot} height={height - above - bottom + 8} />
                  {all === 0 && <rect class="zero" x={x} y={y(0) - 2} width={wide} height={2} rx={1} />}
                  {rows.map((name, k) => {
                    const n = part(bar, name);
                    if (n <= 0 || sum >= top) return null;
                    const from = y(sum);
                    sum += n;
                    return <rect class={colour(k)} x={x} y={y(sum)} width={wide} height={Math.max(from - y(sum) - (k > 0 ? 1 : 0), 0.5)} rx={1.5} />;
                  })}
                  {all > top && <path class="torn" d={`M${x - 3} ${above + 14}l${wide / 4 + 1.5} -5 ${wide / 4 + 1.5} 5 ${wide / 4 + 1.5} -5 ${wide / 4 + 1.5} 5`} />}
                  {(bars.length - 1 - i) % every === 0 && (
                    <text x={left + slot * (i + 0.5)} y={height - 6} text-anchor="middle">
                      {nameOf(bar)}
                    </text>
                  )}
                </g>
              );
            })}
            {bars.map(
              (bar, i) =>
                total(bar) > top && (
                  <text class="over" x={left + slot * (i + 0.5)} y={above - 6} text-anchor="middle" aria-hidden="true">
                    {amount(total(bar))}
                  </text>
                ),
            )}
          </svg>
        )}
        {tipped && (
          <div class="tip small" aria-hidden="true" style={shownAt! < bars.length / 2 ? { left: `${left + slot * (shownAt! + 1) + 4}px` } : { right: `${width - left - slot * shownAt! + 4}px` }}>
            <b>{nameOf(tipped)}</b>
            <span class="of">{amount(total(tipped))}</span>
            {rows.length > 1 &&
              rows.map(
                (name, k) =>
                  part(tipped, name) > 0 && (
                    <>
                      <span class="cut">
                        <span class={"swatch " + colour(k)} /> {name}
                      </span>
                      <span class="of">{amount(part(tipped, name))}</span>
                    </>
                  ),
              )}
          </div>
        )}
      </div>
      <ul class="legend">
        {rows.map((name, k) => (
          <li>
            <span class={"swatch " + colour(k)} />
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
