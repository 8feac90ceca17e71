// The metadata of an object: up to 16 texts under names.
import { Button } from "./basic";

export type Row = [name: string, value: string];

export const rowsOf = (metadata: Record<string, string>): Row[] => Object.entries(metadata);

// changedMetadata returns the members to send: changed ones, and null for removed ones;
// undefined if nothing differs. Rows without a name do not count.
export function changedMetadata(was: Record<string, string>, rows: Row[]): Record<string, string | null> | undefined {
  const now = Object.fromEntries(rows.filter(([name]) => name !== ""));
  const changed: Record<string, string | null> = {};
  for (const [name, value] of Object.entries(now)) if (was[name] !== value) changed[name] = value;
  for (const name of Object.keys(was)) if (!(name in now)) changed[name] = null;
  return Object.keys(changed).length > 0 ? changed : undefined;
}

const mostRows = 16;

export function MetadataFields({ rows, onChange }: { rows: Row[]; onChange: (rows: Row[]) => void }) {
  return (
    <fieldset class="plainset stack">
      <legend>Metadata</legend>
      <p class="small muted">Your own labels; the agent does not see them.</p>
      {rows.map(([name, value], i) => (
        <div class="metadata" key={i}>
          <input class="input" aria-label={`Name ${i + 1}`} placeholder="Name" maxLength={64} value={name} onInput={(e) => onChange(rows.with(i, [e.currentTarget.value, value]))} />
          <input class="input" aria-label={`Value ${i + 1}`} placeholder="Value" maxLength={512} value={value} onInput={(e) => onChange(rows.with(i, [name, e.currentTarget.value]))} />
          <Button kind="quiet" icon="trash" label={`Remove ${name || "row " + (i + 1)}`} onClick={() => onChange(rows.toSpliced(i, 1))} />
        </div>
      ))}
      {rows.length < mostRows && (
        <div>
          <Button small icon="plus" onClick={() => onChange([...rows, ["", ""]])}>
            Add metadata
          </Button>
        </div>
      )}
    </fieldset>
  );
}
