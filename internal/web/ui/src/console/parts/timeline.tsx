import type { ComponentChildren } from "preact";
import type { Meaning } from "./basic";
import { Time } from "./basic";

export interface Happening {
  id: string;
  at: string;
  meaning?: Meaning;
  title: ComponentChildren;
  detail?: ComponentChildren;
}

// A Timeline lists events in order.
export function Timeline({ of }: { of: Happening[] }) {
  return (
    <ol class="timeline">
      {of.map((h) => (
        <li key={h.id} class={h.meaning ?? ""}>
          <Time at={h.at} />
          <div>{h.title}</div>
          {h.detail && <div class="small muted">{h.detail}</div>}
        </li>
      ))}
    </ol>
  );
}
