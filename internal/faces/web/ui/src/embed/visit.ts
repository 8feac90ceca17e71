// A Visit is the state of the chat in this page: it exchanges the ticket, keeps
// the token fresh, sends messages, and follows events from where they broke
// off.

import { Api, Problem, onceKey } from "../lib/api";
import { follow } from "../lib/follow";
import type { Upload } from "../lib/contract";
import { working, type Chat, type ChatEvent, type Message, type PendingInput, type Token } from "./types";

export interface End {
  kind: "expired" | "used" | "invalid" | "off" | "gone";
  title: string;
  text: string;
}

const ends: Record<End["kind"], End> = {
  expired: { kind: "expired", title: "This chat has ended", text: "Its time is up. Reload the page to begin another." },
  used: { kind: "used", title: "This link was used", text: "A link to a chat works once. Ask the site’s owner for a new one." },
  invalid: { kind: "invalid", title: "This chat cannot be opened", text: "The link is not valid any more. Reload the page to begin another." },
  off: { kind: "off", title: "This chat is switched off", text: "Its owner does not offer it at the moment." },
  gone: { kind: "gone", title: "This chat was deleted", text: "Reload the page to begin another." },
};

export interface State {
  chat: Chat | null;
  end: End | null;
  offline: boolean;
  sending: boolean;
  notice: string; // the error of the last action
  unsent: string; // a message that was not accepted; it returns to the field
}

const finalWarning = 60_000; // before the end of the chat
const renewBefore = 0.3; // of a token's life is left
const lookAgain = 10_000;

export class Visit {
  state: State = { chat: null, end: null, offline: false, sending: false, notice: "", unsent: "" };
  private token: Token | null = null;
  private following = false;
  private after = 0;
  private once = { body: "", key: "" };
  private timer = 0;
  private wake: () => void = () => {};

  constructor(
    private readonly embedId: string,
    private readonly changed: (state: State) => void,
    private readonly expiring: (at: string) => void,
    private readonly failed: (code: string, message: string) => void,
  ) {
    addEventListener("online", () => this.wake());
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible") void this.renew();
    });
  }

  private set(change: Partial<State>): void {
    this.state = { ...this.state, ...change };
    this.changed(this.state);
  }

  private setChat(change: Partial<Chat>): void {
    if (this.state.chat) this.set({ chat: { ...this.state.chat, ...change } });
  }

  // begin opens the chat with the ticket of the link, or with the stored token of an
  // earlier load of this page.
  async begin(ticket: string): Promise<void> {
    for (let wait = 500; ; wait = Math.min(wait * 2, 8000)) {
      try {
        await this.open(ticket);
        return;
      } catch (error) {
        if (this.endsChat(error)) return;
        this.set({ offline: true });
        await this.pause(wait);
      }
    }
  }

  private async open(ticket: string): Promise<void> {
    const kept = this.kept();
    if (ticket !== "" && !this.token) {
      try {
        this.keep(await (await new Api({ token: "" }).raw("POST", "/embed/exchange", { body: { embedUrlId: this.embedId, ticket } })).json());
      } catch (error) {
        // A reloaded frame has the used ticket in its address.
        if (!(error instanceof Problem) || error.code !== "embed_url_used" || !kept) throw error;
        this.token = kept;
      }
    }
    this.token ??= kept;
    if (!this.token) {
      this.finish(ends.invalid);
      return;
    }
    const chat = await this.ask<Chat>("GET", "");
    this.take(chat);
    this.set({ offline: false });
    this.schedule();
    if (working(chat.status)) void this.follow();
  }

  // take stores the state that the service returned.
  private take(chat: Chat): void {
    this.after = chat.lastEventSeq;
    this.set({ chat });
  }

  private path(rest: string): string {
    return "/embed/chat-sessions/" + encodeURIComponent(this.token!.chatSessionId) + rest;
  }

  private async ask<T>(method: string, rest: string, body?: unknown, once?: string): Promise<T> {
    const reply = await new Api(this.token!).raw(method, this.path(rest), { body, headers: once ? { "Idempotency-Key": once } : {} });
    return reply.json();
  }

  // endsChat reports whether a failure ends the chat in this page.
  private endsChat(error: unknown): boolean {
    if (!(error instanceof Problem)) throw error;
    switch (error.code) {
      case "embed_url_used":
        this.finish(ends.used);
        return true;
      case "embed_expired":
        this.finish(ends.expired);
        return true;
      case "embed_disabled":
        this.finish(ends.off);
        return true;
      case "session_not_found":
        this.finish(ends.gone);
        return true;
      case "Unauthorized":
        this.finish(this.state.chat ? ends.expired : ends.invalid);
        return true;
      case "origin_not_allowed":
        this.finish(ends.invalid);
        return true;
    }
    return false;
  }

  private finish(end: End): void {
    clearTimeout(this.timer);
    this.token = null;
    this.forget();
    this.set({ end, sending: false, offline: false });
    this.failed(end.kind, end.title);
  }

  // send sends a message and reports whether the service accepted it. The same
  // text sent again after a broken connection is one message.
  send(text: string, files: { attachments?: { uploadId: string }[] } = {}): Promise<boolean> {
    const shown: Message = { id: "sending", role: "user", kind: "message", status: "queued", text, createdAt: new Date().toISOString() };
    this.setChat({ messages: [...this.state.chat!.messages, shown], error: null });
    return this.act("/messages", { message: text, ...files, timezone: Intl.DateTimeFormat().resolvedOptions().timeZone }, text);
  }

  // upload uploads a file for a message.
  async upload(file: File): Promise<Upload> {
    return (await new Api(this.token!).raw("POST", this.path("/uploads"), { query: { name: file.name }, file })).json();
  }

  answer(input: PendingInput, value: string): Promise<boolean> {
    const member = input.kind === "choice" ? "choice" : input.kind === "approval" || input.kind === "tool_confirmation" ? "decision" : "answer";
    return this.act("/input", { inputId: input.id, [member]: value });
  }

  // lookAfter polls the chat from a given time, when the agent continues without an
  // answer, until the returned function is called.
  lookAfter(iso: string): () => void {
    const look = () => {
      if (this.token) void this.reload();
      timer = setTimeout(look, lookAgain) as unknown as number;
    };
    let timer = setTimeout(look, Math.max(0, Date.parse(iso) - Date.now()) + 1000) as unknown as number;
    return () => clearTimeout(timer);
  }

  // rate sets or removes the visitor's rating of an answer, and reports whether the service accepted it.
  async rate(id: string, to: Message["feedback"] | null): Promise<boolean> {
    this.set({ notice: "" });
    try {
      await new Api(this.token!).raw(to ? "PUT" : "DELETE", this.path(`/messages/${encodeURIComponent(id)}/feedback`), to ? { body: to } : {});
    } catch (error) {
      this.showProblem(error);
      return false;
    }
    this.setChat({ messages: this.state.chat!.messages.map((m) => (m.id === id ? { ...m, feedback: to ?? undefined } : m)) });
    return true;
  }

  // person tells the owner of the chat that the visitor wants a person.
  async person(): Promise<void> {
    this.set({ notice: "" });
    try {
      const { requestedAt } = await (await new Api(this.token!).raw("POST", this.path("/person"), {})).json();
      this.setChat({ personRequestedAt: requestedAt });
    } catch (error) {
      this.showProblem(error);
    }
  }

  retry(): Promise<boolean> {
    return this.act("/retry");
  }

  async stop(): Promise<void> {
    try {
      await this.ask("POST", "/cancel");
    } catch (error) {
      this.showProblem(error);
    }
  }

  private async act(rest: string, body?: unknown, text = ""): Promise<boolean> {
    const what = rest + JSON.stringify(body ?? null);
    if (this.once.body !== what) this.once = { body: what, key: onceKey() };
    this.set({ sending: true, notice: "", unsent: "" });
    try {
      const chat = await this.ask<Chat>("POST", rest, body, this.once.key);
      this.once = { body: "", key: "" };
      this.set({ sending: false, offline: false });
      this.take(chat);
      void this.follow();
      return true;
    } catch (error) {
      const chat = this.state.chat;
      if (chat) this.setChat({ messages: chat.messages.filter((m) => m.id !== "sending") });
      if (!(error instanceof Problem && error.offline)) this.once = { body: "", key: "" };
      this.set({ sending: false, unsent: text });
      this.showProblem(error);
      return false;
    }
  }

  // showProblem shows why an action failed, and reads the chat again if its
  // state may have changed meanwhile.
  private showProblem(error: unknown): void {
    if (this.endsChat(error)) return;
    const problem = error as Problem;
    this.set({ notice: problem.offline ? "Not sent: you are offline. Send it again later." : problem.message });
    this.failed(problem.code, problem.message);
    if (problem.code === "embed_limit_reached" && !problem.retryable && this.state.chat) {
      this.setChat({ remaining: { messages: 0, limitReached: true } });
    } else if (problem.status === 404 || problem.status === 409) {
      void this.reload();
    }
  }

  private async reload(): Promise<void> {
    try {
      const chat = await this.ask<Chat>("GET", "");
      this.take(chat);
      if (working(chat.status)) void this.follow();
    } catch (error) {
      this.endsChat(error);
    }
  }

  // follow processes events until the chat has stopped.
  private async follow(): Promise<void> {
    if (this.following) return;
    this.following = true;
    try {
      await follow<ChatEvent>({
        open: () => new Api(this.token!).raw("GET", this.path("/events"), { headers: { Accept: "text/event-stream", "Last-Event-ID": String(this.after) } }),
        opened: () => this.set({ offline: false }),
        take: (event) => this.apply(event),
        closed: (error) => {
          if (error instanceof Problem) {
            if (this.endsChat(error)) return false;
            if (error.offline) this.set({ offline: true });
          } else if (error !== undefined) {
            this.set({ offline: !navigator.onLine }); // broken in the middle
          }
          return true;
        },
        going: () => this.token !== null && this.state.chat !== null && working(this.state.chat.status),
        pause: (milliseconds) => this.pause(milliseconds),
      });
    } finally {
      this.following = false;
    }
    if (this.token) await this.reload(); // the remaining limits may have changed
  }

  private pause(ms: number): Promise<void> {
    return new Promise((done) => {
      const timer = setTimeout(done, ms);
      this.wake = () => {
        clearTimeout(timer);
        done();
      };
    });
  }

  private apply(event: ChatEvent): void {
    const chat = this.state.chat;
    if (!chat || event.seq <= this.after) return;
    this.after = event.seq;
    const change = (id: string, fn: (m: Message) => Message) => this.setChat({ messages: chat.messages.map((m) => (m.id === id ? fn(m) : m)) });
    switch (event.type) {
      case "message.created":
        if (chat.messages.some((m) => m.id === event.messageId)) break;
        this.setChat({
          messages: [...chat.messages, { id: event.messageId, role: event.role, kind: event.kind, status: event.status, text: event.text ?? "", createdAt: event.createdAt }],
        });
        break;
      case "message.delta":
        change(event.messageId, (m) => ({ ...m, text: [...m.text].slice(0, event.offset).join("") + event.text }));
        break;
      case "message.completed":
        change(event.messageId, (m) => ({ ...m, kind: event.kind, status: event.status, text: event.text ?? m.text }));
        break;
      case "session.status":
        this.setChat({ waitingFor: event.statusReason === "waiting_for_operator" ? "operator" : null, ...(working(event.status) ? { status: event.status, error: null, pendingInput: null } : { status: event.status }) });
        break;
      case "input.requested":
        this.setChat({ pendingInput: { id: event.inputId, kind: event.kind, prompt: event.prompt ?? "", options: event.options ?? [], defaultValue: event.defaultValue ?? null, expiresAt: event.expiresAt ?? "", ...(event.confirmation ? { confirmation: event.confirmation } : {}) } });
        break;
      case "input.answered":
      case "input.expired":
        this.setChat({ pendingInput: null });
        break;
      case "error":
        this.setChat({ error: { message: event.message, retryable: event.retryable } });
        break;
    }
  }

  // schedule renews the token in time, and notifies the parent page when the chat is
  // about to end.
  private schedule(): void {
    clearTimeout(this.timer);
    if (!this.token) return;
    const now = Date.now();
    const end = Date.parse(this.token.chatExpiresAt);
    const expires = Date.parse(this.token.expiresAt);
    const next = expires >= end ? (end - now > finalWarning ? end - finalWarning : end) : now + Math.max(0, expires - now) * (1 - renewBefore);
    this.timer = setTimeout(() => void this.renew(), Math.min(Math.max(250, next - now), 0x7fffffff)) as unknown as number;
  }

  private async renew(): Promise<void> {
    if (!this.token || this.state.end) return;
    const now = Date.now();
    const end = Date.parse(this.token.chatExpiresAt);
    if (now >= end) {
      this.finish(ends.expired);
      return;
    }
    if (end - now <= finalWarning) this.expiring(this.token.chatExpiresAt);
    if (Date.parse(this.token.expiresAt) < end) {
      try {
        this.keep(await (await new Api(this.token).raw("POST", "/embed/refresh")).json());
      } catch (error) {
        if (this.endsChat(error)) return;
        this.timer = setTimeout(() => void this.renew(), 2000) as unknown as number;
        return;
      }
    }
    this.schedule();
  }

  // The token survives a reload of the frame, and no longer than the tab.
  private get place(): string {
    return "stoa.embed." + this.embedId;
  }

  private keep(token: Token): void {
    this.token = token;
    try {
      sessionStorage.setItem(this.place, JSON.stringify(token));
    } catch {
      // Storage is switched off: a reload needs another link.
    }
  }

  private kept(): Token | null {
    try {
      return JSON.parse(sessionStorage.getItem(this.place) ?? "null") as Token | null;
    } catch {
      return null;
    }
  }

  private forget(): void {
    try {
      sessionStorage.removeItem(this.place);
    } catch {
      // There is nothing to remove.
    }
  }
}
