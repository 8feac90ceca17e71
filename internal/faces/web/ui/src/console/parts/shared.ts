// Reads that several parts of a page need: each is sent once.
import type { Api } from "../../lib/api";
import type { Meta } from "../../lib/types";
import { type Loaded, useLoad } from "./load";
import { useSession } from "./session";

const running = new WeakMap<Api, Map<string, Promise<unknown>>>();

// shared reads a path of the API. A read that is running already is not sent again.
export function shared<T>(api: Api, path: string): Promise<T> {
  const all = running.get(api) ?? new Map<string, Promise<unknown>>();
  running.set(api, all);
  const same = all.get(path);
  if (same) return same as Promise<T>;
  const read = api.get<T>(path).finally(() => all.delete(path));
  all.set(path, read);
  return read;
}

// useMeta loads what the service offers: its models, plans and limits.
export function useMeta(): Loaded<Meta> {
  const { api } = useSession();
  return useLoad(() => shared<Meta>(api, "/meta"), [api]);
}
