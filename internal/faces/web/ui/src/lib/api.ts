// The one client of the API that the pages use: authentication, JSON, and every
// failure as a Problem.

import type { ErrorBody } from "./types";

// A Problem is an error reply of the service, or a failed connection.
export class Problem extends Error {
  readonly status: number; // 0 if the service was not reached
  readonly code: string;
  readonly param: string | null;
  readonly requestId: string;
  readonly retryable: boolean;

  constructor(status: number, body: Partial<ErrorBody>) {
    super(body.message ?? "The service answered in a way that this page does not understand.");
    this.status = status;
    this.code = body.code ?? "";
    this.param = body.param ?? null;
    this.requestId = body.requestId ?? "";
    this.retryable = body.retryable ?? true;
  }

  get offline(): boolean {
    return this.status === 0;
  }
}

// problemOf converts an error reply.
export async function problemOf(reply: Response): Promise<Problem> {
  let body: Partial<ErrorBody> = {};
  try {
    body = ((await reply.json()) as { error?: ErrorBody }).error ?? {};
  } catch {
    // A proxy answered, not the service.
    body = { message: `The reply was ${reply.status} ${reply.statusText}.` };
  }
  return new Problem(reply.status, { requestId: reply.headers.get("x-request-id") ?? "", ...body });
}

// left is whether the page is being left: requests then outlive it.
let left = false;
export const leave = (on: boolean) => void (left = on);
export const isLeft = () => left;

export type Query = Record<string, string | number | undefined>;

// A Caller says how requests are authenticated: by a token, or by the cookie of the
// console, which counts only with the account of the request.
export type Caller = { token: string } | { account: string };

export class Api {
  private readonly headers: Record<string, string>;
  private readonly credentials: RequestCredentials;

  constructor(
    by: Caller,
    private readonly onRefused: (why: string) => void = () => {},
  ) {
    this.headers = "token" in by ? { Authorization: `Bearer ${by.token}` } : { "Stoa-Account": by.account };
    this.credentials = "token" in by ? "omit" : "same-origin";
  }

  // raw sends a request and returns the reply; an error reply is thrown as a Problem. A
  // string is a body that is already JSON, a file one of bytes.
  async raw(method: string, path: string, init: { query?: Query; body?: unknown; text?: string; file?: Blob; headers?: Record<string, string>; signal?: AbortSignal } = {}): Promise<Response> {
    const url = new URL("/api/v1" + path, location.origin);
    for (const [name, value] of Object.entries(init.query ?? {})) {
      if (value !== undefined) url.searchParams.set(name, String(value));
    }
    const headers: Record<string, string> = { ...this.headers, ...init.headers };
    const body = init.text ?? (init.body === undefined ? undefined : JSON.stringify(init.body));
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (init.file) headers["Content-Type"] = "application/octet-stream"; // the service looks at the content
    let reply: Response;
    try {
      reply = await fetch(url, {
        method,
        headers,
        body: body ?? init.file,
        signal: init.signal,
        credentials: this.credentials,
        cache: "no-store",
        keepalive: left,
      });
    } catch (error) {
      if (init.signal?.aborted) throw error;
      throw new Problem(0, { code: "offline", message: "The service did not answer. Check the connection and try again." });
    }
    if (reply.ok) return reply;
    const problem = await problemOf(reply);
    if (reply.status === 401) this.onRefused(problem.message);
    throw problem;
  }

  async get<T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> {
    return (await this.raw("GET", path, { query, signal })).json();
  }

  // create sends a POST that creates an object; a repetition with the same key
  // creates it once.
  async create<T>(path: string, body: unknown, once: string): Promise<T> {
    return (await this.raw("POST", path, { body, headers: { "Idempotency-Key": once } })).json();
  }

  // read returns an object and its entity tag.
  async read<T>(path: string, signal?: AbortSignal): Promise<{ data: T; etag: string }> {
    const reply = await this.raw("GET", path, { signal });
    return { data: await reply.json(), etag: reply.headers.get("ETag") ?? "" };
  }

  // patch changes an object if its entity tag is still the given one.
  async patch<T>(path: string, body: unknown, etag?: string): Promise<{ data: T; etag: string }> {
    const reply = await this.raw("PATCH", path, { body, headers: etag ? { "If-Match": etag } : {} });
    return { data: await reply.json(), etag: reply.headers.get("ETag") ?? "" };
  }

  async remove(path: string, query?: Query): Promise<void> {
    await this.raw("DELETE", path, { query });
  }

  // upload uploads a file and reports the progress, from 0 to 1.
  upload(path: string, query: Record<string, string>, file: Blob, tell: (part: number) => void): Promise<void> {
    return new Promise((done, failed) => {
      const send = new XMLHttpRequest(); // fetch does not report the progress of an upload
      send.open("PUT", "/api/v1" + path + "?" + new URLSearchParams(query));
      for (const [name, value] of Object.entries(this.headers)) send.setRequestHeader(name, value);
      send.setRequestHeader("Content-Type", file.type || "application/octet-stream");
      send.upload.onprogress = (e) => e.lengthComputable && e.total > 0 && tell(e.loaded / e.total);
      send.onerror = () => failed(new Problem(0, { code: "offline", message: "The connection broke. Upload the file again." }));
      send.onload = async () => {
        if (send.status >= 200 && send.status < 300) done();
        else {
          const problem = await problemOf(new Response(send.responseText, { status: send.status }));
          if (send.status === 401) this.onRefused(problem.message);
          failed(problem);
        }
      };
      send.send(file);
    });
  }
}

// onceKey returns a new idempotency key. It does not use crypto.randomUUID, which is
// missing in pages without TLS.
export function onceKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");
}
