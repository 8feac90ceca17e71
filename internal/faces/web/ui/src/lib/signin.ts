// The sign-in of the console. Its session is in a cookie that scripts cannot read.

import { Problem, problemOf } from "./api";

export interface Provider {
  name: string;
  url: string; // begins the sign-in with it
}

// SignedIn describes the session: the person or the key, and the accounts.
export interface SignedIn {
  signedIn: boolean;
  person: { id: string; name: string; email: string } | null; // null if a key is signed in
  accounts: { id: string; name: string; role: string | null }[];
  keyId: string | null;
  expiresAt: string | null;
  signIn: Provider[];
}

// call sends a request to a path of the sign-in. It returns nothing for a reply without a body.
export async function call<T>(method: string, path: string, body?: unknown): Promise<T> {
  let reply: Response;
  try {
    reply = await fetch(path, {
      method,
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
    });
  } catch {
    throw new Problem(0, { code: "offline", message: "The service did not answer. Check the connection and try again." });
  }
  if (!reply.ok) throw await problemOf(reply);
  return reply.status === 204 ? (undefined as T) : reply.json();
}

export const signedIn = (): Promise<SignedIn> => call("GET", "/console/session");

// signIn exchanges a key for a session. It fails if the browser has not stored the cookie.
export async function signIn(key: string): Promise<SignedIn> {
  await call("POST", "/console/session", { key });
  return stored();
}

// stored returns the session that a reply with a cookie has begun.
export async function stored(): Promise<SignedIn> {
  const who = await signedIn();
  if (!who.signedIn) {
    throw new Problem(200, { message: "Your browser did not store the cookie of this sign-in. Allow cookies for this page, and open it at the public address of the service, with https if that has it.", retryable: false });
  }
  return who;
}
