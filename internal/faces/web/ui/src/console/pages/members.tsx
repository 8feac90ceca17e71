// The people who can sign in to the account: their roles, invitations, and sign-in links.
import { useState } from "preact/hooks";
import type { Invitation, InvitationList, InvitationWithLink, InviteMember, Member, SignInLink, UpdateMember } from "../../lib/contract";
import { Effects } from "../parts/effects";
import { Badge, Notice, Time } from "../parts/basic";
import { Facts } from "../parts/facts";
import { SelectField, TextField } from "../parts/fields";
import { ConfirmAction, FormDialog, useAction } from "../parts/form";
import { Empty, Failure, useLoad } from "../parts/load";
import { type Ends, ResourcePage } from "../parts/resource";
import { useFilter } from "../parts/router";
import { Secret } from "../parts/secret";
import { useSession } from "../parts/session";
import { type Column, Pages, useList } from "../parts/table";

type Role = Member["role"];
type OperatorRole = NonNullable<Member["operatorRole"]> | "";

const roles: [Role, string][] = [
  ["owner", "Owner: everything, with members and secrets"],
  ["member", "Member: models, agents and their own keys"],
  ["viewer", "Viewer: reads agents, sessions and usage"],
];
const operatorRoles: [OperatorRole, string][] = [
  ["", "None"],
  ["support", "Support: reads all accounts and the state of the service"],
  ["billing", "Billing: support, and grants, plans and invitations"],
  ["admin", "Admin: runs the service"],
];

const nameOf = (m: Member) => m.name || m.email || m.id;

// A Row is a member, or an invitation that can still be accepted.
type Row = Member | Invitation;

const invited = (row: Row): row is Invitation => "expiresAt" in row;

// columnsOf shows members and invitations; me is the person who is signed in.
const columnsOf = (me?: string): Column<Row>[] => [
    {
      title: "Name",
      show: (row) =>
        invited(row) ? (
          <div>
            <div class="breaks">
              {row.name || row.email || <span class="muted">Anyone with the link</span>} <Badge meaning="waiting">invited</Badge>
            </div>
            <div class="small muted breaks">
              {row.name && row.email && `${row.email}, `}
              {row.accountName && `becomes the owner of ${row.accountName}, `}
              {row.createdByName && `by ${row.createdByName}, `}
              expires <Time at={row.expiresAt} />
            </div>
          </div>
        ) : (
          <div>
            <div class="breaks">
              {nameOf(row)} {row.id === me && <Badge meaning="accent">you</Badge>}
            </div>
            {row.name && row.email && <div class="small muted breaks">{row.email}</div>}
          </div>
        ),
    },
    {
      title: "Role",
      keep: 3,
      show: (row) => (
        <div>
          {row.role} {row.operatorRole && <Badge>operator: {row.operatorRole}</Badge>}
          {!invited(row) && row.source === "group" && <div class="small muted">by a group</div>}
        </div>
      ),
    },
    {
      title: "Signs in with",
      show: (row) => (invited(row) ? null : row.issuer ? <span class="breaks" title={row.issuer}>{hostOf(row.issuer)}</span> : <span class="muted">links</span>),
    },
    {
      title: "Last active",
      keep: 2,
      named: true,
      show: (row) => (invited(row) ? null : row.lastUsedAt ? <Time at={row.lastUsedAt} /> : <span class="muted">never</span>),
    },
    { title: "Joined", keep: 1, named: true, show: (row) => (invited(row) ? null : <Time at={row.createdAt} />) },
];

// MembersOf lists the members of a customer's account.
export function MembersOf({ account }: { account: string }) {
  const pages = useList<Row>("/members", 50, undefined, { accountId: account });
  return <Pages of={pages} label="Members" columns={columnsOf()} empty={<Empty title="No members"><p>Nobody signs in to this account; its programs use keys.</p></Empty>} />;
}

const most = 100; // open invitations of an account

export function Members() {
  const { api, who, may, offers } = useSession();
  const [filter] = useFilter();
  const changes = may("account:write");
  const open = useLoad((signal) => api.get<InvitationList>("/invitations", { q: filter.q, limit: most }, signal), [api, filter.q]);
  const ofMember = (when: (m: Member) => boolean) => (row: Row) => !invited(row) && when(row);
  const ofInvitation = (row: Row) => changes && invited(row);
  const shows = (ends: Ends, title: string) => (made: InvitationWithLink | SignInLink) => ends.onNext(({ onClose }) => <Link title={title} made={made} onClose={onClose} />);
  return (
    <>
      {open.problem && <Failure problem={open.problem} retry={open.reload} />}
      <ResourcePage<Row>
        title="Members"
        path="/members"
        lead={open.data?.data ?? (open.problem ? [] : "loading")}
        onReload={open.reload}
        limit={50}
        label="Members"
        search={{ name: "q", label: "Name or email" }}
        nothing="No matching members"
        empty={{ title: "No members", text: "Invite people to give each their own sign-in and role. Programs, and people with a key, do not need to be members." + (who.person ? "" : " You are signed in by a key yourself: the audit log names the key, not a person.") }}
        create={changes && { title: "Invite", dialog: (ends) => <Invite onClose={ends.onClose} onDone={shows(ends, "The invitation")} /> }}
        columns={columnsOf(who.person?.id)}
        actions={[
          { title: "Changes", kind: "quiet", when: ofMember(() => offers("listAudit")), run: (row) => location.assign("#/audit?actor=" + (row as Member).keyId) },
          { title: "Role", when: ofMember(() => changes), dialog: (ends, row) => <ChangeRole of={row as Member} {...ends} /> },
          {
            title: "Sign-in link",
            when: ofMember((m) => changes && m.issuer === null),
            dialog: (ends, row) => <MakeLink of={row as Member} onClose={ends.onClose} onDone={shows(ends, `A sign-in link for ${nameOf(row as Member)}`)} />,
          },
          { title: "Remove", kind: "danger", when: ofMember(() => changes), dialog: (ends, row) => <Remove of={row as Member} {...ends} /> },
          { title: "New link", when: ofInvitation, dialog: (ends, row) => <Renew of={row as Invitation} onClose={ends.onClose} onDone={shows(ends, "The invitation")} /> },
          { title: "Revoke", kind: "danger", when: ofInvitation, dialog: (ends, row) => <Revoke of={row as Invitation} {...ends} /> },
        ]}
      />
    </>
  );
}

// rights say who may do what.
const rights: [string, string][] = [
  ["See agents, sessions, drives, schedules, connections and usage", "viewer, member, owner"],
  ["Use models; create and change agents, sessions, drives, schedules and embeds", "member, owner"],
  ["Approve tool calls, and manage their own keys", "member, owner"],
  ["Change connections, secrets and webhooks", "owner"],
  ["Read the audit log; invite, change and remove members", "owner"],
];

function Rights() {
  return (
    <details>
      <summary class="small">Who may do what</summary>
      <Facts of={rights} />
    </details>
  );
}

// hostOf returns the host of an address; the address if it has none.
function hostOf(address: string): string {
  try {
    return new URL(address).host || address;
  } catch {
    return address;
  }
}

// RoleFields choose the roles of a member.
function RoleFields({ role, operatorRole, onRole, onOperatorRole }: { role: Role; operatorRole: OperatorRole; onRole: (role: Role) => void; onOperatorRole: (role: OperatorRole) => void }) {
  const { may } = useSession();
  return (
    <>
      <SelectField id="role" label="Role" options={roles} value={role} onChange={onRole} />
      <Rights />
      {(may("operator") || operatorRole) && <SelectField id="operator-role" label="Operator role" hint="Only in the account of the service's operator." options={operatorRoles} value={operatorRole} onChange={onOperatorRole} />}
    </>
  );
}

function Invite({ onDone, onClose }: { onDone: (made: InvitationWithLink) => void; onClose: () => void }) {
  const { api } = useSession();
  const [name, setName] = useState("");
  const [email, setEmail] = useState("");
  const [role, setRole] = useState<Role>("member");
  const [operatorRole, setOperatorRole] = useState<OperatorRole>("");
  const action = useAction();
  const submit = () =>
    action.run(async (once) => {
      const body: InviteMember = { role };
      if (name.trim()) body.name = name.trim();
      if (email.trim()) body.email = email.trim();
      if (operatorRole) body.operatorRole = operatorRole;
      onDone(await api.create<InvitationWithLink>("/members", body, once));
    });
  return (
    <FormDialog id="invite" title="Invite" submit="Create the link" action={action} onSubmit={submit} onClose={onClose}>
      <TextField id="member-name" label="Name" hint="Of the person, as others see it." placeholder="as they give it" maxLength={200} value={name} onChange={setName} autofocus />
      <EmailField value={email} onChange={setEmail} />
      <RoleFields role={role} operatorRole={operatorRole} onRole={setRole} onOperatorRole={setOperatorRole} />
    </FormDialog>
  );
}

function ChangeRole({ of: m, onDone, onClose }: { of: Member } & Ends) {
  const { api } = useSession();
  const [role, setRole] = useState<Role>(m.role);
  const [operatorRole, setOperatorRole] = useState<OperatorRole>(m.operatorRole ?? "");
  const action = useAction();
  const submit = () =>
    action.run(async () => {
      const body: UpdateMember = { role };
      if (operatorRole !== (m.operatorRole ?? "")) body.operatorRole = operatorRole || null;
      await api.patch("/members/" + m.id, body);
      onDone(`The role of ${nameOf(m)} is changed`);
    });
  return (
    <FormDialog id="change-role" title={`Change the role of ${nameOf(m)}`} submit="Save" action={action} onSubmit={submit} onClose={onClose}>
      <RoleFields role={role} operatorRole={operatorRole} onRole={setRole} onOperatorRole={setOperatorRole} />
      {role !== m.role && <Effects of="member" id={m.id} change="role" to={role} />}
      <p class="small muted">
        Keys that {nameOf(m)} created lose the scopes that the new role lacks.
        {m.source === "group" && " The role no longer follows the groups of the identity provider."}
      </p>
    </FormDialog>
  );
}

function MakeLink({ of: m, onDone, onClose }: { of: Member; onDone: (made: SignInLink) => void; onClose: () => void }) {
  const { api } = useSession();
  const action = useAction();
  const submit = () => action.run(async (once) => onDone(await api.create<SignInLink>(`/members/${m.id}/link`, undefined, once)));
  return (
    <FormDialog id="make-link" title={`Sign-in link for ${nameOf(m)}`} submit="Create the link" action={action} onSubmit={submit} onClose={onClose}>
      <p>The link signs in once, within 15 minutes, with all rights of {nameOf(m)}. Earlier links stop working.</p>
    </FormDialog>
  );
}

// EmailField is the address to which the link of an invitation is sent.
export function EmailField({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  return <TextField id="invited-email" label="Email" hint="Optional. The link is also sent to it, if the service sends mail." maxLength={254} value={value} onChange={onChange} />;
}

const reasons = {
  no_mail_server: "this service sends no mail",
  no_public_url: "this service does not know its address (publicUrl)",
  no_secrets_key: "this service has no key to store it with (secrets.keys)",
  mail_limit: "this account has sent too many mails today",
};

export function Link({ title, made, onClose }: { title: string; made: InvitationWithLink | SignInLink; onClose: () => void }) {
  return (
    <Secret title={title} text={made.link} onClose={onClose}>
      {made.mailed && "The link is sent by mail. "}
      {made.notMailed && `The link is not sent by mail, because ${reasons[made.notMailed]}. `}
      {!made.mailed && "Send it over a channel that only this person can read. "}
      It works once and expires <Time at={made.expiresAt} />.
    </Secret>
  );
}

function Remove({ of: m, ...ends }: { of: Member } & Ends) {
  const { api, who } = useSession();
  const [keys, setKeys] = useState<"end" | "keep">("end");
  return (
    <ConfirmAction title={`Remove ${nameOf(m)}?`} action="Remove the member" work={() => api.remove("/members/" + m.id, { keys })} said={`${nameOf(m)} is no longer a member`} {...ends}>
      <p>{nameOf(m)} is signed out of this account within a second.{m.source === "group" && " The groups of the identity provider make them a member again at the next sign-in."}</p>
      {keys === "end" && <Effects of="member" id={m.id} />}
      <fieldset class="plainset">
        <legend>Their keys, and what they and these keys created</legend>
        <label class="check">
          <input type="radio" name="keys" checked={keys === "end"} onChange={() => setKeys("end")} />
          <span>End them: agents, schedules and keys of {nameOf(m)} stop</span>
        </label>
        <label class="check">
          <input type="radio" name="keys" checked={keys === "keep"} onChange={() => setKeys("keep")} />
          <span>Keep them: they then belong to the account</span>
        </label>
      </fieldset>
      {m.id === who.person?.id && <Notice meaning="waiting">It is your own membership: you lose access to this account.</Notice>}
    </ConfirmAction>
  );
}

function Renew({ of: i, onDone, onClose }: { of: Invitation; onDone: (made: InvitationWithLink) => void; onClose: () => void }) {
  const { api } = useSession();
  const action = useAction();
  const submit = () => action.run(async (once) => onDone(await api.create<InvitationWithLink>(`/invitations/${i.id}/link`, undefined, once)));
  return (
    <FormDialog id="renew" title={i.name ? `New link for ${i.name}` : "New link for the invitation"} submit="Create the link" action={action} onSubmit={submit} onClose={onClose}>
      <p>The link works once within 7 days. The earlier link stops working.</p>
    </FormDialog>
  );
}

function Revoke({ of: i, ...ends }: { of: Invitation } & Ends) {
  const { api } = useSession();
  return (
    <ConfirmAction title="Revoke the invitation?" action="Revoke the invitation" work={() => api.remove("/invitations/" + i.id)} said="The invitation is revoked" {...ends}>
      <p>Its link stops working.</p>
    </ConfirmAction>
  );
}
