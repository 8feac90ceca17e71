import { useSession } from "../session";
import { Empty } from "./load";

// MissingScope explains why a page is empty for this key.
export function MissingScope({ scope, what }: { scope: string; what: string }) {
  const { me } = useSession();
  return (
    <section class="panel">
      <Empty title={`This key may not ${what}`}>
        <p>
          The key <code>{me.key.hint}</code> does not carry the scope <code>{scope}</code>.
        </p>
      </Empty>
    </section>
  );
}
