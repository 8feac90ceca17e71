// Agents, their drives and their sessions, as the pages read them.

export interface Agent {
  id: string;
  spaceId: string;
  name: string;
  description: string | null;
  instructions: string;
  model: string;
  driveAccess: "read_only" | "read_write";
  embedEnabled: boolean;
  version: number;
  createdAt: string;
  updatedAt: string;
}

export interface AgentVersion {
  id?: undefined; // its number names it
  version: number;
  instructions: string;
  model: string;
  driveAccess: string;
  createdAt: string;
}

export interface Drive {
  files: number;
  bytes: number;
  revision: number;
  maxFiles: number;
  maxBytes: number;
}

export interface DriveFile {
  id: string;
  path: string;
  size: number;
  mimeType: string;
  sha256: string;
  text: boolean;
  lines: number | null;
  version: number;
  updatedAt: string;
}

export interface DriveFileList {
  data: DriveFile[];
  commonPrefixes: string[];
  nextCursor: string | null;
  hasMore: boolean;
}

export interface DriveHit {
  path: string;
  startLine: number;
  endLine: number;
  snippet: string;
}

export type SessionStatus = "queued" | "running" | "completed" | "waiting_for_input" | "failed" | "cancelled";

export interface PendingInput {
  id: string;
  kind: "question" | "choice" | "approval";
  prompt: string;
  options: string[];
  defaultValue: string | null;
  expiresAt: string;
}

export interface Session {
  id: string;
  agentId: string;
  agentVersion: number;
  mode: "chat" | "once";
  status: SessionStatus;
  statusReason: string | null;
  reply: string | null;
  pendingInput: PendingInput | null;
  error: { code: string; message: string; retryable: boolean } | null;
  turn: { id: string; number: number; attempt: number };
  queuedMessages: number;
  model: { requested: string; served: string | null; fallback: boolean };
  usage: { inputTokens: number; outputTokens: number; totalTokens: number; steps: number; creditsMicro: number };
  lastEventSeq: number;
  trigger: { type: string; id: string | null };
  title: string | null;
  createdAt: string;
  updatedAt: string;
}

// A SessionEvent has the members of its type; the others are absent.
export interface SessionEvent {
  seq: number;
  type: string;
  createdAt: string;
  status?: string;
  statusReason?: string;
  turn?: number;
  attempt?: number;
  messageId?: string;
  role?: "user" | "assistant";
  kind?: string;
  text?: string;
  offset?: number;
  stepId?: string;
  step?: number;
  model?: string;
  stop?: string;
  usage?: { inputTokens: number; outputTokens: number };
  creditsMicro?: number;
  callId?: string;
  name?: string;
  arguments?: string;
  isError?: boolean;
  bytes?: number;
  path?: string;
  fromLine?: number;
  toLine?: number;
  via?: string;
  outcome?: string;
  prompt?: string;
  answer?: string;
  defaultUsed?: boolean;
  code?: string;
  message?: string;
}

// A Said is a message of a session as its events build it up.
export interface Said {
  id: string;
  role: "user" | "assistant";
  kind: string;
  status: string;
  text: string;
}

// hear adds what an event says to the messages. A piece that begins before the
// end of what is known replaces the rest: the step was done again.
export function hear(said: Said[], e: SessionEvent): Said[] {
  if (!e.messageId) return said;
  const at = said.findIndex((m) => m.id === e.messageId);
  const old = at < 0 ? { id: e.messageId, role: "assistant" as const, kind: "reply", status: "in_progress", text: "" } : said[at]!;
  let now: Said;
  switch (e.type) {
    case "message.created":
    case "message.completed":
      now = { ...old, role: e.role ?? old.role, kind: e.kind ?? old.kind, status: e.status ?? old.status, text: e.text ?? old.text };
      break;
    case "message.delta": {
      const points = [...old.text]; // offsets count characters, not UTF-16 units
      now = { ...old, text: points.slice(0, e.offset).join("") + (e.text ?? "") };
      break;
    }
    default:
      return said;
  }
  return at < 0 ? [...said, now] : said.with(at, now);
}
