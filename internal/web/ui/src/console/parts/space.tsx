// The spaces of the account as far as the key may see them, and the choice of one. Nothing is to be chosen of one.
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

// SpaceField chooses a space; none is the empty text, which none names.
export function SpaceField({ id, hint, none, value, onChange }: { id: string; hint: string; none: string; value: string; onChange: (id: string) => void }) {
  const spaces = useSpaces();
  if (spaces.length < 2) return null;
  return <SelectField id={id} label="Space" hint={hint} options={[["", none], ...named(spaces)]} value={value} onChange={onChange} />;
}
