// Notices about low or missing credits, above pages that spend them.
import { useRef } from "preact/hooks";
import type { Contact } from "../../lib/contract";
import { isLow } from "../../lib/format";
import type { Credits, Me } from "../../lib/types";
import { shared, useMeta } from "./shared";
import { useSession } from "./session";
import { Amount, Notice } from "./basic";
import { useLoad } from "./load";

// CreditNotices reads the balance again with each address.
export function CreditNotices({ path }: { path: string }) {
  const { api, me, may, offers } = useSession();
  const asks = may("usage:read") && offers("getCredits");
  const first = useRef(true); // the session has just read me
  const now = useLoad(
    (signal) => {
      const user = first.current ? me : api.get<Me>("/users/me", undefined, signal);
      first.current = false;
      return Promise.all([user, asks ? shared<Credits>(api, "/credits") : undefined]);
    },
    [api, path],
  );
  const [user, sums] = now.data ?? [me];
  const available = (sums ?? user.credits).availableMicro;
  const { maxCreditsMicroPerDay: cap, spentTodayMicro: spent } = user.key;
  const ofDay = cap === null ? undefined : Math.max(cap - (spent ?? 0), 0);
  return (
    <div class="left">
      {available <= 0 ? (
        <Notice meaning="failed">
          <p>
            <b>Out of credits.</b> Calls are refused with <code>insufficient_quota</code> until you add credits. <TopUp />
          </p>
        </Notice>
      ) : (
        sums &&
        isLow(available, sums.grantedMicro) && (
          <Notice meaning="waiting">
            <p>
              <b>Credits are low</b>: <Amount of={available} /> of <Amount of={sums.grantedMicro} />. <TopUp />
            </p>
          </Notice>
        )
      )}
      {available > 0 && cap !== null && ofDay !== undefined && (ofDay === 0 || isLow(ofDay, cap)) && (
        <Notice meaning={ofDay === 0 ? "failed" : "waiting"}>
          <p>
            <b>{ofDay === 0 ? "This key has reached its daily limit." : "This key is close to its daily limit"}</b>
            {ofDay > 0 && (
              <>
                : <Amount of={ofDay} /> credits.
              </>
            )}{" "}
            It may spend <Amount of={cap} /> credits a day, those created from it included; the next day begins at midnight UTC.
          </p>
        </Notice>
      )}
    </div>
  );
}

// TopUp shows how to get more credits.
function TopUp() {
  const { me, may } = useSession();
  const meta = useMeta();
  if (may("operator:billing")) return <a href={"#/accounts/" + me.id}>Grant credits to the account "{me.name}".</a>;
  if (!meta.data?.contact) return <>Ask the operator of this service to top up the account.</>;
  return <Ask of={meta.data.contact} />;
}

function Ask({ of: c }: { of: Contact }) {
  if (c.url === null && c.email === null) return <>Ask the operator of this service to top up the account.</>;
  return (
    <>
      {c.url !== null && (
        <a href={c.url} rel="noreferrer">
          Top up the account
        </a>
      )}
      {c.url !== null && c.email !== null && ", or write to "}
      {c.url === null && "To top up the account, write to "}
      {c.email !== null && <a href={"mailto:" + c.email}>{c.email}</a>}.
    </>
  );
}
