// The types of the embed paths of the API, under the names of this page.
export type { EmbedChat as Chat, EmbedEvent as ChatEvent, EmbedMessage as Message, EmbedToken as Token, PendingInput, SessionStatus as Status, ToolConfirmation } from "../lib/contract";
export { going as working } from "../lib/agents";
