import type { Meta } from "../../lib/types";
import { useSession } from "./session";

// ModelSelect selects a model, by family, with unserved models and models outside of
// the plan marked.
export function ModelSelect({ id, none, meta, value, onChange }: { id: string; none?: string; meta: Meta; value: string; onChange: (model: string) => void }) {
  const { me } = useSession();
  const served = meta.models.filter((m) => m.available);
  const groups = [...new Set(served.map((m) => m.family))].map((family) => ({ label: family, models: served.filter((m) => m.family === family) }));
  const rest = meta.models.filter((m) => !m.available);
  if (rest.length > 0) groups.push({ label: "Not served", models: rest });
  const known = value === "" || value === "auto" || meta.models.some((m) => m.id === value);
  return (
    <select id={id} class="input" value={value} onChange={(e) => onChange(e.currentTarget.value)} aria-describedby={id + "-hint"}>
      {none && <option value="">{none}</option>}
      <option value="auto">auto</option>
      {!known && <option value={value}>{value}</option>}
      {groups.map(({ label, models }) => (
        <optgroup label={label}>
          {models
            .map((m) => (
              <option value={m.id} disabled={!m.available}>
                {m.id}
                {!m.available ? ": no provider here" : m.gated && !me.plan.gatedModels ? ": not in your plan" : m.sandbox ? ": sandbox" : ""}
              </option>
            ))}
        </optgroup>
      ))}
    </select>
  );
}
