// The types of the API under the names that the pages use. contract.ts is
// generated from the contract; nothing of it is repeated here.
export type {
  Credits,
  Error as ErrorBody,
  Key,
  KeyWithSecret,
  LedgerEntry,
  Meta,
  Model,
  Price,
  Receipt,
  Reconciliation,
  UsageReport,
  UsageRow,
  User as Me,
} from "./contract";

// A List is one page of a list.
export interface List<T> {
  data: T[];
  nextCursor: string | null;
  hasMore: boolean;
}

type Keys<T> = T extends unknown ? keyof T : never;
type Member<T, K> = T extends unknown ? (K extends keyof T ? T[K] : never) : never;

// Flat is an object of a union with the common members of all its types; the other
// members may be absent.
export type Flat<T> = Pick<T, keyof T> & { [K in Exclude<Keys<T>, keyof T>]?: Member<T, K> };
