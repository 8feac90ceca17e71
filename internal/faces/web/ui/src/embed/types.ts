// The types of the embed paths of the API, under the names of this page.
import type * as contract from "../lib/contract";

export type { EmbedChat as Chat, EmbedEvent as ChatEvent, EmbedMessage as Message, EmbedToken as Token, PendingInput, SessionStatus as Status, ToolConfirmation } from "../lib/contract";


export const working = (status: contract.SessionStatus) => status === "queued" || status === "running";
