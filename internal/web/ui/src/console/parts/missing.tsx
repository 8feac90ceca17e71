import { Empty } from "./load";
import { useSession } from "./session";

// MissingScope replaces a page that this key cannot access.
export function MissingScope({ title, scope, what }: { title: string; scope?: string; what?: string }) {
  const { me } = useSession();
  return (
    <>
      <header class="head">
        <h1>{title}</h1>
      </header>
      <section class="panel">
        <Empty title={`This key may not ${what}`}>
          <p>
            The key <code>{me.key.hint}</code> does not carry the scope <code>{scope}</code>.
          </p>
        </Empty>
      </section>
    </>
  );
}
