// What the API answers, as far as the pages read it. The contract is the
// authority: internal/contract/openapi.yaml.

export interface ErrorBody {
  message: string;
  type: string;
  param: string | null;
  code: string;
  requestId: string;
  retryable: boolean;
}

export interface Me {
  id: string;
  name: string;
  email: string | null;
  plan: { id: string; name: string; gatedModels: boolean };
  credits: { availableMicro: number; heldMicro: number };
  defaultSpaceId: string | null;
  key: { id: string; name: string; hint: string; scopes: string[]; expiresAt: string | null };
  createdAt: string;
}

export interface Price {
  inputMicroPerMillion: number;
  cachedInputMicroPerMillion: number;
  outputMicroPerMillion: number;
  version: string;
}

export interface Model {
  id: string;
  family: string;
  gated: boolean;
  aliases: string[];
  price: Price;
  available: boolean;
}

export interface Meta {
  name: string;
  version: string;
  defaultModel: string;
  models: Model[];
}

export interface List<T> {
  data: T[];
  nextCursor: string | null;
  hasMore: boolean;
}

export interface Credits {
  availableMicro: number;
  heldMicro: number;
  grantedMicro: number;
  spentMicro: number;
}

export interface UsageRow {
  day?: string;
  model?: string;
  calls: number;
  inputTokens: number;
  outputTokens: number;
  totalTokens: number;
  creditsMicro: number;
}

export interface UsageReport {
  from: string;
  to: string;
  data: UsageRow[];
  totals: UsageRow;
}

export interface Receipt {
  id: string;
  model: { requested: string; served: string; fallbackReason: string | null };
  usage: { inputTokens: number; cachedInputTokens: number; cacheWriteTokens: number; outputTokens: number; reasoningTokens: number; totalTokens: number };
  price: Price;
  creditsMicro: number;
  estimated: boolean;
  clamped: boolean;
  capped: boolean;
  writtenOffMicro: number;
  status: string;
  keyId: string;
  endUser: string | null;
  agentId: string | null;
  sessionId: string | null;
  startedAt: string;
  timeToFirstTokenMilliseconds: number | null;
  durationMilliseconds: number;
  createdAt: string;
}

export interface LedgerEntry {
  id: string;
  type: "grant" | "charge" | "refund" | "adjust";
  amountMicro: number;
  ref: string | null;
  reason: string | null;
  createdAt: string;
}

export interface Reconciliation {
  balanced: boolean;
  grantedMicro: number;
  availableMicro: number;
  heldMicro: number;
  chargesMicro: number;
  receiptsMicro: number;
  charges: number;
  differences: unknown[];
  checkedAt: string;
}

export interface Key {
  id: string;
  name: string;
  hint: string;
  status: "active" | "expired" | "revoked";
  scopes: string[];
  expiresAt: string | null;
  requestsPerMinute: number | null;
  maxCreditsMicroPerDay: number | null;
  revokedAt: string | null;
  lastUsedAt: string | null;
  createdAt: string;
}

export interface KeyWithSecret extends Key {
  secret: string;
}
