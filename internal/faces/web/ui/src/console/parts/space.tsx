// The choice of a space. A single space needs no choice.
import type { Space } from "../../lib/contract";
import type { List } from "../../lib/types";
import { useLoad } from "./load";
import { PickerField, sources } from "./picker";
import { useSession } from "./session";

// useManySpaces reports whether the account has more than one space.
export function useManySpaces(): boolean {
  const { api, may } = useSession();
  const spaces = useLoad((signal) => (may("agents:read") ? api.get<List<Space>>("/spaces", { limit: 2 }, signal) : Promise.resolve(undefined)), [api]);
  return (spaces.data?.data.length ?? 0) > 1;
}

// SpaceField selects a space; none is the label of the empty value.
export function SpaceField({ id, hint, none, value, onChange }: { id: string; hint: string; none: string; value: string; onChange: (id: string) => void }) {
  if (!useManySpaces()) return null;
  return <PickerField id={id} label="Space" hint={hint} source={sources.spaces} fixed={[{ id: "", title: none }]} value={value} onChange={onChange} />;
}
