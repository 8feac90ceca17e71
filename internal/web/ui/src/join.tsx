// The page of an invitation and of a sign-in link. The secret of the link is the fragment of
// the address: it is removed immediately, and sent only in the bodies of two requests. Nothing
// happens before the button, since programs that check mail open links too.
import { render } from "preact";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { call, stored, type Provider } from "./lib/signin";
import { Button, Notice } from "./console/parts/basic";
import { asProblem, Failure, Skeleton, useLoad } from "./console/parts/load";
import { chooseAccount } from "./console/parts/session";

interface Offer {
  kind: "invitation" | "link";
  account: { id: string; name: string };
  role: string;
  person: { name: string } | null;
  signIn: Provider[]; // through which an invitation is accepted; empty if without
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
      <Frame title="This link has ended">
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
  const [problem, setProblem] = useState<ReturnType<typeof asProblem>>();
  const link = o.kind === "link";
  const accept = async () => {
    setBusy(true);
    setProblem(undefined);
    try {
      await call("POST", "/console/join", { token });
      await stored();
      chooseAccount(o.account.id);
      location.assign("/console");
    } catch (error) {
      setProblem(asProblem(error));
      setBusy(false);
    }
  };
  return (
    <Frame title={link ? "Sign in" : `Join ${o.account.name}`}>
      {link ? (
        <p>
          You sign in as <b>{o.person?.name || "a member"}</b> to the account <b>{o.account.name}</b>, as {article(o.role)}.
        </p>
      ) : (
        <p>
          {o.person?.name ? <b>{o.person.name}</b> : "You"}
          {o.person?.name ? " is" : " are"} invited to the account <b>{o.account.name}</b>, as {article(o.role)}.
        </p>
      )}
      <p class="small muted">Continue only if you expect this link and know the account. Who is signed in to the console of this browser now is signed out.</p>
      {!isSecureContext && <Notice meaning="waiting">This connection is not encrypted: others in the network can take over your session.</Notice>}
      {!link && o.signIn.length > 0 ? (
        o.signIn.map((p) => (
          <a key={p.name} class="button main" href={p.url}>
            Accept with {p.name}
          </a>
        ))
      ) : (
        <Button kind="main" disabled={busy} onClick={() => void accept()}>
          {link ? "Sign in" : "Accept"}
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
      <p>Open the whole link again, as you received it. After a reload of this page, too.</p>
      <ToConsole />
    </Frame>
  ),
  document.getElementById("join")!,
);
