// Agents, their drives and their sessions.
import type { Api } from "./api";
import type * as contract from "./contract";
import type { Flat } from "./types";

export type { Agent, AgentVersion, Drive, DriveFile, DriveFileList, DriveSearchResult, DriveVersionList, PendingInput, Session, SessionStatus } from "./contract";

// going reports whether a session or a run continues without a client.
export const going = (status: contract.SessionStatus | "skipped"): boolean => status === "queued" || status === "running";

// A SessionEvent has the members of its type; the others are absent.
export type SessionEvent = Flat<contract.SessionEvent>;

// A SessionMessage is a message of a session, built up from its events.
export interface SessionMessage {
  id: string;
  role: "user" | "assistant";
  kind: string;
  status: string;
  text: string;
  turn?: number;
  attachments?: contract.Attachment[];
}

// applyEvent applies an event to the messages. A piece that begins before the end of
// the known text replaces the rest: the step was repeated.
export function applyEvent(said: SessionMessage[], e: SessionEvent): SessionMessage[] {
  if (!e.messageId) return said;
  const at = said.findIndex((m) => m.id === e.messageId);
  const old = at < 0 ? { id: e.messageId, role: "assistant" as const, kind: "reply", status: "in_progress", text: "" } : said[at]!;
  let now: SessionMessage;
  switch (e.type) {
    case "message.created":
    case "message.completed":
      now = { ...old, role: e.role ?? old.role, kind: e.kind ?? old.kind, status: e.status ?? old.status, text: e.text ?? old.text, turn: e.turn ?? old.turn, attachments: e.attachments ?? old.attachments };
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

// uploader returns a function that uploads a file for a message to an agent.
export const uploader =
  (api: Api, agentId: string) =>
  async (file: File): Promise<contract.Upload> =>
    (await api.raw("POST", `/api-agents/${agentId}/uploads`, { query: { name: file.name }, file })).json();
