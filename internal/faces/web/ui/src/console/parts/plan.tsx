// The plan of an account as a field of a form, and amounts of credits as people type them.
import { SelectField } from "./fields";
import { useMeta } from "./shared";
import { useSession } from "./session";

export function PlanField({ value, onChange, hint }: { value: string; onChange: (plan: string) => void; hint?: string }) {
  const meta = useMeta();
  const plans = meta.data?.plans ?? [];
  const options = plans.map((p) => [p.id, p.name + (p.gatedModels ? ": all models" : "")] as const);
  return <SelectField id="plan" label="Plan" hint={hint} options={plans.some((p) => p.id === value) ? options : [[value, value], ...options]} value={value} onChange={onChange} />;
}

// usePlanName returns the name of a plan by its id; the id while the name is unknown.
export function usePlanName(): (id: string) => string {
  const { me } = useSession();
  const plans = useMeta().data?.plans ?? [me.plan];
  return (id) => plans.find((p) => p.id === id)?.name ?? id;
}

// toMicro converts an amount of credits as typed to micro-credits.
export const toMicro = (text: string): number => Math.round(Number(text) * 1e6);
