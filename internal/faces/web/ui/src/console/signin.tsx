import { useState } from "preact/hooks";
import type { Problem } from "../lib/api";
import { signIn, type Provider, type SignedIn } from "../lib/signin";
import { Button, Field, Notice } from "./parts/basic";
import { asProblem, Failure } from "./parts/load";

// SignIn offers the identity providers, and exchanges a key for a session.
export function SignIn({ said, offered, providers, onSignedIn }: { said?: string; offered: string; providers: Provider[]; onSignedIn: (who: SignedIn) => void }) {
  const [key, setKey] = useState(offered);
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState<string>();
  const [problem, setProblem] = useState<Problem>();
  const submit = async (event: Event) => {
    event.preventDefault();
    const given = key.trim();
    setProblem(undefined);
    if (!given) {
      setWrong("Enter an API key. It begins with sk_.");
      return;
    }
    setWrong(undefined);
    setBusy(true);
    try {
      onSignedIn(await signIn(given));
    } catch (error) {
      const p = asProblem(error);
      if (p.status === 401) setWrong("Invalid key. Check that you pasted all of it, or ask the operator of this service for a new one.");
      else setProblem(p);
    } finally {
      setBusy(false);
    }
  };
  return (
    <main id="main" class="signin">
      <form class="panel" onSubmit={submit} noValidate>
        <div class="body stack">
          <h1>{providers.length > 0 ? "Sign in" : "Sign in with a key"}</h1>
          {said && <Notice meaning="waiting">{said}</Notice>}
          {!isSecureContext && <Notice meaning="waiting">This connection is not encrypted: others in the network can read your key.</Notice>}
          {providers.map((p) => (
            <a key={p.name} class="button" href={p.url}>
              Continue with {p.name}
            </a>
          ))}
          {providers.length > 0 && <h2>Or with a key</h2>}
          {offered && (
            <p>
              The link that you opened contains the key <code>{`${offered.slice(0, 4)}…${offered.slice(-4)}`}</code>. Sign in with it only if you trust the source of the link.
            </p>
          )}
          <Field id="key" label="API key" hint="Sent only to this service, and not stored in this browser." problem={wrong}>
            <input
              id="key"
              class="input code"
              type="password"
              autocomplete="off"
              spellcheck={false}
              autofocus
              value={key}
              aria-invalid={wrong ? "true" : undefined}
              aria-describedby={wrong ? "key-hint key-problem" : "key-hint"}
              onInput={(e) => setKey(e.currentTarget.value)}
            />
          </Field>
          {problem && <Failure problem={problem} />}
          <Button kind="main" type="submit" disabled={busy}>
            {busy ? "Signing in" : "Sign in"}
          </Button>
          <p class="small muted">
            No key? The first start of the service prints one or stores it in <code>owner.key</code>. <a href="/docs/quickstart">Read the quickstart</a>, or ask your operator.
          </p>
        </div>
      </form>
    </main>
  );
}
