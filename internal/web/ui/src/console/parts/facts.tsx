import type { ComponentChildren } from "preact";

// A Fact has a title, what is said under it, and the classes of that.
export type Fact = readonly [title: string, said: ComponentChildren, look?: string];

// Facts shows what is known of one thing. What is not a fact is left out.
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
