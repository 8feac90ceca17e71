// What the service offers: its models, plans and limits.
import type { Api } from "../../lib/api";
import type { Meta } from "../../lib/types";
import { type Loaded, useLoad } from "./load";
import { useSession } from "./session";

const fresh = 10_000; // milliseconds in which all parts of a page share one read

const last = new WeakMap<Api, { at: number; meta: Promise<Meta> }>();

// useMeta loads what the service offers.
export function useMeta(): Loaded<Meta> {
  const { api } = useSession();
  return useLoad(() => {
    const known = last.get(api);
    if (known && Date.now() - known.at < fresh) return known.meta;
    const meta = api.get<Meta>("/meta");
    last.set(api, { at: Date.now(), meta });
    meta.catch(() => last.delete(api));
    return meta;
  }, [api]);
}
