import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { ticks } from "./chart";
import { Table } from "./table";

export interface Line {
  name: string;
  values: (number | null)[]; // one for each point; null where nothing is known
  before?: boolean; // of the period before, drawn dimmed
}

// pathOf returns the path of a line, which is interrupted where values are missing.
function pathOf(values: (number | null)[], x: (i: number) => number, y: (n: number) => number): string {
  return values.map((v, i) => (v === null ? "" : `${i === 0 || values[i - 1] === null ? "M" : "L"}${x(i).toFixed(1)} ${y(v).toFixed(1)}${(i === 0 || values[i - 1] === null) && values[i + 1] == null ? "h0.1" : ""}`)).join("");
}

// Lines draws a curve for each line, with the same numbers as a table below. The numbers of the point under the pointer, the
// finger or the focus are shown beside it; arrow keys move the focus.
export function Lines({ points, lines, label, unit, amount }: { points: string[]; lines: Line[]; label: string; unit: string; amount: (n: number) => string }) {
  const [shownAt, setShownAt] = useState<number>();
  const [width, setWidth] = useState(0);
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWidth(Math.floor(entry!.contentRect.width)));
    watch.observe(box.current!);
    setWidth(Math.floor(box.current!.getBoundingClientRect().width));
    return () => watch.disconnect();
  }, []);
  const [height, left, above, bottom] = [150, 56, 22, 22];
  const scale = ticks(Math.max(0, ...lines.flatMap((l) => l.values.map((v) => v ?? 0))));
  const top = scale.at(-1)!;
  const slot = (width - left) / Math.max(points.length, 1);
  const x = (i: number) => left + slot * (i + 0.5);
  const y = (n: number) => above + (height - above - bottom) * (1 - n / top);
  const every = Math.ceil(52 / Math.max(slot, 1));
  const said = (v: number | null | undefined) => (v == null ? "–" : amount(v));
  const colour = (k: number) => "l" + ((k % 6) + 1) + (lines[k]!.before ? " before" : "");
  return (
    <div class="chart lines">
      <div ref={box} class="plot">
        {width > 0 && (
          <svg width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="group" aria-label={label} onMouseLeave={() => setShownAt(undefined)}>
            <text x={0} y={12}>
              {unit}
            </text>
            {[0, top].map((n) => (
              <g>
                <line class="grid" x1={left} x2={width} y1={y(n)} y2={y(n)} />
                <text x={left - 8} y={y(n) + 4} text-anchor="end">
                  {amount(n)}
                </text>
              </g>
            ))}
            {lines.map((l, k) => (
              <path class={"line " + colour(k)} d={pathOf(l.values, x, y)} />
            ))}
            {points.map((point, i) => (
              <g
                key={point}
                class={"bar-of" + (i === shownAt ? " shown" : "")}
                role="img"
                tabIndex={i === (shownAt ?? points.length - 1) ? 0 : -1}
                aria-label={[point, ...lines.map((l) => `${l.name}: ${said(l.values[i])}`)].join(", ")}
                onMouseEnter={() => setShownAt(i)}
                onFocus={() => setShownAt(i)}
                onBlur={() => setShownAt(undefined)}
                onClick={() => setShownAt(i)}
                onKeyDown={(event) => {
                  const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
                  const to = event.currentTarget.parentElement?.querySelectorAll<SVGGElement>(".bar-of")[i + step];
                  if (!step || !to) return;
                  event.preventDefault();
                  to.focus();
                }}
              >
                <rect class="slot" x={left + slot * i} y={above - 8} width={slot} height={height - above - bottom + 8} opacity={0.5} />
                {(points.length - 1 - i) % every === 0 && (
                  <text x={x(i)} y={height - 4} text-anchor="middle">
                    {point}
                  </text>
                )}
              </g>
            ))}
          </svg>
        )}
        {shownAt !== undefined && points[shownAt] !== undefined && (
          <div class="tip small" aria-hidden="true" style={shownAt < points.length / 2 ? { left: `${left + slot * (shownAt + 1) + 4}px` } : { right: `${width - left - slot * shownAt + 4}px` }}>
            <b>{points[shownAt]}</b>
            <span />
            {lines.map((l, k) => (
              <>
                <span class="cut">
                  <span class={"swatch " + colour(k)} /> {l.name}
                </span>
                <span class="of">{said(l.values[shownAt])}</span>
              </>
            ))}
          </div>
        )}
      </div>
      {lines.length > 1 && (
        <ul class="legend">
          {lines.map((l, k) => (
            <li>
              <span class={"swatch " + colour(k)} />
              {l.name}
            </li>
          ))}
        </ul>
      )}
      <details class="as-table">
        <summary>As a table</summary>
        <Table
          label={label}
          rows={points.map((point, i) => ({ id: point, i })).reverse()}
          columns={[
            { title: "Time", show: (r: { id: string; i: number }) => <span class="nowrap">{r.id}</span> },
            ...lines.map((l) => ({ title: l.name, number: true, show: (r: { id: string; i: number }) => said(l.values[r.i]) })),
          ]}
        />
      </details>
    </div>
  );
}
