// The plan of an account as a field of a form, and amounts of credits as people type them.
import type { Meta } from "../../lib/types";
import { SelectField } from "./fields";
import { useLoad } from "./load";
import { useSession } from "./session";

export function PlanField({ value, onChange, hint }: { value: string; onChange: (plan: string) => void; hint?: string }) {
  const { api } = useSession();
  const meta = useLoad((signal) => api.get<Meta>("/meta", undefined, signal), [api]);
  const plans = meta.data?.plans ?? [];
  const options = plans.map((p) => [p.id, p.name + (p.gatedModels ? ": all models" : "")] as const);
  return <SelectField id="plan" label="Plan" hint={hint} options={plans.some((p) => p.id === value) ? options : [[value, value], ...options]} value={value} onChange={onChange} />;
}

// toMicro converts an amount of credits as typed to micro-credits.
export const toMicro = (text: string): number => Math.round(Number(text) * 1e6);
