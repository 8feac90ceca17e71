// The invitation of a customer who has no account: accepting it creates the account and its owner.
import { useState } from "preact/hooks";
import type { InvitationWithLink, InviteAccount } from "../../lib/contract";
import { Button } from "../parts/basic";
import { TextField } from "../parts/fields";
import { FormDialog, useAction } from "../parts/form";
import { PlanField, toMicro } from "../parts/plan";
import { useSession } from "../parts/session";
import { EmailField, Link } from "./members";

// InviteCustomer is the button with its dialogs.
export function InviteCustomer() {
  const [open, setOpen] = useState(false);
  const [made, setMade] = useState<InvitationWithLink>();
  return (
    <>
      <Button onClick={() => setOpen(true)}>Invite a customer</Button>
      {open && (
        <Invite
          onClose={() => setOpen(false)}
          onDone={(i) => {
            setOpen(false);
            setMade(i);
          }}
        />
      )}
      {made && <Link title="The invitation" made={made} onClose={() => setMade(undefined)} />}
    </>
  );
}

function Invite({ onDone, onClose }: { onDone: (made: InvitationWithLink) => void; onClose: () => void }) {
  const { api } = useSession();
  const [account, setAccount] = useState("");
  const [name, setName] = useState("");
  const [email, setEmail] = useState("");
  const [plan, setPlan] = useState("free");
  const [grant, setGrant] = useState("");
  const action = useAction();
  const submit = () =>
    action.run(async (once) => {
      const body: InviteAccount = { accountName: account.trim(), plan };
      if (name.trim()) body.name = name.trim();
      if (email.trim()) body.email = email.trim();
      if (grant) body.grantMicro = toMicro(grant);
      onDone(await api.create<InvitationWithLink>("/accounts/invitations", body, once));
    });
  return (
    <FormDialog id="invite-customer" title="Invite a customer" submit="Create the link" ready={!!account.trim()} action={action} onSubmit={submit} onClose={onClose}>
      <TextField id="invited-account" label="Name of the account" hint="It is created when the person opens the link and accepts." maxLength={200} value={account} onChange={setAccount} autofocus />
      <TextField id="invited-person" label="Name of the person" hint="The owner of the account. Optional." maxLength={200} value={name} onChange={setName} />
      <EmailField value={email} onChange={setEmail} />
      <PlanField value={plan} onChange={setPlan} />
      <TextField id="invited-grant" label="Starting credits" hint="Empty: none." type="number" min="0.000001" step="any" value={grant} onChange={setGrant} />
    </FormDialog>
  );
}
