// Messages to and from the page around the frame. That page begins with "init"; from
// then on this page communicates only with that origin, and only if the embed lists it.

export type FromParent = { type: "stoa.init"; theme?: string } | { type: "stoa.theme"; theme: string };

export type ToParent =
  | { type: "stoa.ready"; version: 1; chatSessionId: string; agentName: string }
  | { type: "stoa.resize"; height: number }
  | { type: "stoa.status"; status: string }
  | { type: "stoa.token_expiring"; expiresAt: string }
  | { type: "stoa.close" }
  | { type: "stoa.error"; code: string; message: string };

// lists reports whether one of the allowed origins matches an origin.
export function lists(allowed: string[], origin: string): boolean {
  return allowed.some((pattern) => {
    const [scheme, host] = pattern.split("://*.");
    if (host === undefined) return pattern === origin;
    return origin.startsWith(scheme + "://") && origin.endsWith("." + host) && origin.length > (scheme + "://." + host).length;
  });
}

export class Parent {
  private origin: string | null = null;
  private waiting: ToParent[] = [];

  constructor(
    private readonly allowed: string[],
    onTheme: (theme: string) => void,
  ) {
    if (window.parent === window) return;
    addEventListener("message", (event: MessageEvent) => {
      if (event.source !== window.parent || typeof event.data !== "object" || event.data === null) return;
      if (this.origin !== null && event.origin !== this.origin) return;
      const said = event.data as FromParent;
      if (said.type === "stoa.init" && this.origin === null && lists(this.allowed, event.origin)) {
        this.origin = event.origin;
        for (const message of this.waiting.splice(0)) this.post(message);
      }
      if (this.origin !== null && (said.type === "stoa.init" || said.type === "stoa.theme") && typeof said.theme === "string") onTheme(said.theme);
    });
  }

  // tell posts a message after the parent page has sent "init". Until then only the
  // newest size and status are kept.
  tell(message: ToParent): void {
    if (window.parent === window) return;
    if (this.origin !== null) {
      this.post(message);
      return;
    }
    this.waiting = this.waiting.filter((m) => m.type !== message.type);
    this.waiting.push(message);
  }

  private post(message: ToParent): void {
    window.parent.postMessage(message, this.origin!);
  }
}
