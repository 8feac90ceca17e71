// What a change stops, in words, in the dialogs that ask before it.
import type { Effects as Counted } from "../../lib/contract";
import { useLoad } from "./load";
import { useSession } from "./session";

export function Effects({ of, id, change, to }: { of: "account" | "key" | "agent" | "space" | "connection" | "secret" | "member"; id: string; change?: "suspend" | "disable" | "plan" | "role"; to?: string }) {
  const { api, offers } = useSession();
  const asks = offers("getEffects");
  const counted = useLoad(async (signal) => (asks ? await api.get<Counted>("/effects", { of, id, change, to }, signal) : undefined), [api, of, id, change, to]);
  if (!asks || counted.problem) return null; // a key that may change need not be able to read
  return (
    <p role="status" class="effects">
      {counted.data && !counted.loading ? <b>{counted.data.text}</b> : <span class="muted">Counting what it stops</span>}
    </p>
  );
}
