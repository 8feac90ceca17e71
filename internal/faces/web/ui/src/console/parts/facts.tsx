import type { ComponentChildren } from "preact";
import { Amount } from "./basic";

// A Fact has a title, a content, and the classes of the content.
export type Fact = readonly [title: string, said: ComponentChildren, look?: string];

// Facts shows the details of one object. Falsy entries are omitted.
export function Facts({ of, look }: { of: (Fact | false | "" | 0 | null | undefined)[]; look?: string }) {
  return (
    <dl class={"facts" + (look ? " " + look : "")}>
      {of.map(
        (fact) =>
          fact && (
            <>
              <dt>{fact[0]}</dt>
              <dd class={fact[2]}>{fact[1]}</dd>
            </>
          ),
      )}
    </dl>
  );
}

// Lines shows amounts of the books below each other; the last one is the result of the others.
export function Lines({ of }: { of: [title: string, micro: number][] }) {
  return (
    <dl class="sums">
      {of.map(([title, micro]) => (
        <>
          <dt>{title}</dt>
          <dd>
            <Amount of={micro} as="ledger" />
          </dd>
        </>
      ))}
    </dl>
  );
}
