import { Empty } from "./load";
import { useSession } from "./session";

// NoScope says which scope the key or the role lacks.
export function NoScope({ scope }: { scope?: string }) {
  const { me, who } = useSession();
  return (
    <p>
      {who.person ? (
        "Your role in this account"
      ) : (
        <>
          The key <code>{me.key.hint}</code>
        </>
      )}{" "}
      does not include the scope <code>{scope}</code>.
    </p>
  );
}

// MissingScope replaces a page that this key or role cannot access.
export function MissingScope({ title, scope, what }: { title: string; scope?: string; what?: string }) {
  const { who } = useSession();
  return (
    <>
      <header class="head">
        <h1>{title}</h1>
      </header>
      <section class="panel">
        <Empty title={`${who.person ? "Your role" : "This key"} cannot ${what}`}>
          <NoScope scope={scope} />
        </Empty>
      </section>
    </>
  );
}
