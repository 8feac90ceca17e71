// The small components: button, field, badge, notice, time, amount.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { copyText } from "../../lib/copy";
import { ago, columnCredits, credits, exactColumn, exactCredits, micro, moment } from "../../lib/format";
import { Icon, type IconName } from "./icon";

export function Button(props: {
  kind?: "plain" | "main" | "danger" | "quiet";
  small?: boolean;
  type?: "button" | "submit";
  disabled?: boolean;
  icon?: IconName;
  label?: string; // for a button that shows only an icon
  hint?: string;
  expanded?: boolean; // of a button that shows more
  pressed?: boolean; // of a button that switches
  onClick?: () => void;
  children?: ComponentChildren;
}) {
  const names = ["button", props.kind && props.kind !== "plain" ? props.kind : "", props.small ? "small" : "", props.label ? "icon" : ""];
  return (
    <button type={props.type ?? "button"} class={names.filter(Boolean).join(" ")} disabled={props.disabled} aria-label={props.label} aria-expanded={props.expanded} aria-pressed={props.pressed} title={props.label ?? props.hint} onClick={props.onClick}>
      {props.icon && <Icon name={props.icon} />}
      {props.children}
    </button>
  );
}

// A Field wraps one input with its label, a hint and its error.
export function Field(props: { label: string; id: string; hint?: ComponentChildren; problem?: string; children: ComponentChildren }) {
  return (
    <div class="field">
      <label class="label" for={props.id}>
        {props.label}
      </label>
      {props.children}
      {props.hint && (
        <span class="hint" id={props.id + "-hint"}>
          {props.hint}
        </span>
      )}
      {props.problem && (
        <span class="problem" id={props.id + "-problem"} role="alert">
          {props.problem}
        </span>
      )}
    </div>
  );
}

// A Meaning is the kind of a state: ok is a quiet dot, the others are signs.
export type Meaning = "ok" | "warning" | "refused" | "waiting" | "failed" | "info" | "accent" | "none";

const marks: Partial<Record<Meaning, IconName>> = { warning: "warning", refused: "refused", waiting: "wait", failed: "cross", info: "info" };

export function Badge({ meaning = "none", children }: { meaning?: Meaning; children: ComponentChildren }) {
  const mark = marks[meaning];
  return (
    <span class={"badge " + meaning}>
      {mark && <Icon name={mark} />}
      {children}
    </span>
  );
}

export function Notice({ meaning = "info", children }: { meaning?: "ok" | "waiting" | "failed" | "info"; children: ComponentChildren }) {
  return (
    <div class={"notice " + meaning} role={meaning === "failed" ? "alert" : undefined}>
      <Icon name={{ ok: "check", info: "info", failed: "warning", waiting: "warning" }[meaning] as IconName} />
      <div>{children}</div>
    </div>
  );
}

export function Time({ at }: { at: string }) {
  return (
    <time dateTime={at} title={moment(at)} class="nowrap">
      {ago(at)}
    </time>
  );
}

// An Amount shows micro-credits as credits: in a text or in a column, rounded, or exact for
// receipts and the books.
export function Amount({ of, as = "text" }: { of: number; as?: keyof typeof amounts }) {
  return <span title={micro(of)}>{amounts[as](of)}</span>;
}

const amounts = { text: credits, column: columnCredits, exact: exactCredits, ledger: exactColumn };

// An Id is shown completely, with a button that copies it.
export function Id({ of }: { of: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    if (!(await copyText(of))) return;
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return (
    <span class="id">
      <span class="mono breaks">{of}</span>
      <button type="button" class="button quiet icon" aria-label={(done ? "Copied " : "Copy ") + of} title={done ? "Copied" : "Copy"} onClick={copy}>
        <Icon name={done ? "check" : "copy"} />
      </button>
    </span>
  );
}
