// The page of an invitation and of a sign-in link. The secret of the link is the fragment of
// the address: it is removed immediately, and sent only in the bodies of two requests. Nothing
// happens before the button, since programs that check mail open links too.
import { render } from "preact";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Problem } from "../lib/api";
import { call, stored } from "../lib/signin";
import { Button, Notice } from "./parts/basic";
import { asProblem, Failure, Skeleton, useLoad } from "./parts/load";
import { chooseAccount } from "./parts/session";

interface Offer {
  kind: "invitation" | "signIn";
  accountId: string;
  accountName: string;
  personName: string | null;
  role: string;
  operatorRole: string | null;
  signIn: string[]; // the identity providers, one of which an invitation requires
}

const token = /^#(inv_[\w-]{1,200})$/.exec(location.hash)?.[1];
history.replaceState(null, "", location.pathname);

const Frame = ({ title, children }: { title: string; children: ComponentChildren }) => (
  <main id="main" class="signin">
    <section class="panel">
      <div class="body stack">
        <h1>{title}</h1>
        {children}
      </div>
    </section>
  </main>
);

const ToConsole = () => (
  <p>
    <a href="/console">Open the console</a>
  </p>
);

function Join() {
  const offer = useLoad(() => call<Offer>("POST", "/console/join", { token, look: true }), []);
  if (offer.problem?.code === "invitation_ended") {
    return (
      <Frame title="This link has expired">
        <p>{offer.problem.message}</p>
        <ToConsole />
      </Frame>
    );
  }
  if (!offer.data) return <Frame title="Join an account">{offer.problem ? <Failure problem={offer.problem} retry={offer.reload} /> : <Skeleton />}</Frame>;
  return <Offered of={offer.data} />;
}

const article = (word: string) => (/^[aeiou]/.test(word) ? "an " : "a ") + word;

function Offered({ of: o }: { of: Offer }) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem>();
  const accept = async (signIn?: string) => {
    setBusy(true);
    setProblem(undefined);
    try {
      const joined = await call<{ location: string | null }>("POST", "/console/join", { token, signIn });
      if (joined.location === null) await stored();
      chooseAccount(o.accountId);
      location.assign(joined.location ?? "/console");
    } catch (error) {
      setProblem(asProblem(error));
      setBusy(false);
    }
  };
  const as = article(o.role) + (o.operatorRole ? `, and of the service as ${o.operatorRole}` : "");
  return (
    <Frame title={o.kind === "signIn" ? "Sign in" : `Join ${o.accountName}`}>
      {o.kind === "signIn" ? (
        <p>
          You sign in as <b>{o.personName ?? "a member"}</b> to the account <b>{o.accountName}</b>, as {as}.
        </p>
      ) : (
        <p>
          {o.personName ? <b>{o.personName}</b> : "You"}
          {o.personName ? " is" : " are"} invited to the account <b>{o.accountName}</b>, as {as}.
        </p>
      )}
      <p class="small muted">Continue only if you expect this link and know the account. It replaces the sign-in of this browser.</p>
      {!isSecureContext && <Notice meaning="waiting">This connection is not encrypted: others in the network can take over your session.</Notice>}
      {o.signIn.map((name) => (
        <Button key={name} kind="main" disabled={busy} onClick={() => void accept(name)}>
          Accept with {name}
        </Button>
      ))}
      {o.signIn.length === 0 && (
        <Button kind="main" disabled={busy} onClick={() => void accept()}>
          {o.kind === "signIn" ? "Sign in" : "Accept"}
        </Button>
      )}
      {problem && <Failure problem={problem} />}
    </Frame>
  );
}

render(
  token ? (
    <Join />
  ) : (
    <Frame title="This link is incomplete">
      <p>Open the complete link again, exactly as you received it.</p>
      <ToConsole />
    </Frame>
  ),
  document.getElementById("join")!,
);
