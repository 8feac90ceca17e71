import { useState } from "preact/hooks";
import { Api } from "../lib/api";
import type { Me } from "../lib/types";
import { Button, Field, Notice } from "./parts/basic";
import { asProblem, Failure } from "./parts/load";
import type { Problem } from "../lib/api";

// SignIn asks for a key and checks it.
export function SignIn({ said, offered, onKey }: { said?: string; offered: string; onKey: (key: string, me: Me, remember: boolean) => void }) {
  const [key, setKey] = useState(offered);
  const [remember, setRemember] = useState(false);
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState<string>();
  const [problem, setProblem] = useState<Problem>();
  const submit = async (event: Event) => {
    event.preventDefault();
    const given = key.trim();
    setProblem(undefined);
    if (!given) {
      setWrong("Paste a key; it begins with sk_.");
      return;
    }
    setWrong(undefined);
    setBusy(true);
    try {
      onKey(given, await new Api(given).get<Me>("/users/me"), remember);
    } catch (error) {
      const p = asProblem(error);
      if (p.status === 401) setWrong("This key is not valid. Check that it is whole, or ask whoever runs this service for another.");
      else setProblem(p);
    } finally {
      setBusy(false);
    }
  };
  return (
    <main id="main" class="signin">
      <form class="panel" onSubmit={submit} noValidate>
        <div class="body stack">
          <h1>Sign in with a key</h1>
          {said && <Notice meaning="waiting">{said}</Notice>}
          {offered && (
            <p>
              The link you opened brought the key <code>{`${offered.slice(0, 4)}…${offered.slice(-4)}`}</code>. Sign in with it if you know where the link is from.
            </p>
          )}
          <Field
            id="key"
            label="API key"
            hint="It goes to this service only."
            problem={wrong}
          >
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
          <label class="check">
            <input type="checkbox" checked={remember} onChange={(e) => setRemember(e.currentTarget.checked)} />
            <span>Remember it in this browser. Otherwise it is forgotten when the tab is closed.</span>
          </label>
          {problem && <Failure problem={problem} />}
          <Button kind="main" type="submit" disabled={busy}>
            {busy ? "Signing in" : "Sign in"}
          </Button>
        </div>
      </form>
    </main>
  );
}
