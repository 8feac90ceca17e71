// The spaces of the account that the key can list, and the choice of one. A single
// space needs no choice.
import type { Space } from "../../lib/contract";
import type { List } from "../../lib/types";
import { useSession } from "./session";
import { named, SelectField } from "./fields";
import { useLoad } from "./load";

export function useSpaces(): Space[] {
  const { api, may } = useSession();
  const spaces = useLoad((signal) => (may("agents:read") ? api.get<List<Space>>("/spaces", { limit: 100 }, signal) : Promise.resolve(undefined)), [api]);
  return spaces.data?.data ?? [];
}

// SpaceField selects a space; none is the label of the empty value.
export function SpaceField({ id, hint, none, value, onChange }: { id: string; hint: string; none: string; value: string; onChange: (id: string) => void }) {
  const spaces = useSpaces();
  if (spaces.length < 2) return null;
  return <SelectField id={id} label="Space" hint={hint} options={[["", none], ...named(spaces)]} value={value} onChange={onChange} />;
}
