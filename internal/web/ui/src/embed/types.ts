// What the embed paths of the API answer: internal/contract/openapi.yaml.

export type Status = "queued" | "running" | "completed" | "waiting_for_input" | "failed" | "cancelled";

export interface Message {
  id: string;
  role: "user" | "assistant";
  kind: "message" | "answer" | "reply" | "comment" | "question";
  status: "queued" | "in_progress" | "completed" | "cancelled" | "failed";
  text: string;
}

export interface PendingInput {
  id: string;
  kind: "question" | "choice" | "approval";
  prompt: string;
  options: string[];
}

export interface Chat {
  id: string;
  agent: { name: string };
  status: Status;
  messages: Message[];
  hasEarlierMessages: boolean;
  pendingInput: PendingInput | null;
  error: { message: string; retryable: boolean } | null;
  greeting: string | null;
  theme: "auto" | "light" | "dark";
  remaining: { messages: number; limitReached: boolean };
  maxMessageChars: number;
  lastEventSeq: number;
  expiresAt: string;
  chatExpiresAt: string;
}

export interface Token {
  token: string;
  chatSessionId: string;
  expiresAt: string;
  chatExpiresAt: string;
}

// An Event of the chat, with the members of all its types.
export interface ChatEvent {
  seq: number;
  type: string;
  status?: Status;
  messageId?: string;
  role?: Message["role"];
  kind?: string;
  offset?: number;
  text?: string;
  inputId?: string;
  prompt?: string;
  options?: string[];
  message?: string;
  retryable?: boolean;
}

export const working = (status: Status) => status === "queued" || status === "running";
