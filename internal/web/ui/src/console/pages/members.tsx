// The people who can sign in to the account: their roles, invitations, and sign-in links.
import { useState } from "preact/hooks";
import type { Invitation, InvitationWithLink, InviteMember, Member, SignInLink, UpdateMember } from "../../lib/contract";
import { Badge, Notice, Time } from "../parts/basic";
import { SelectField, TextField } from "../parts/fields";
import { ConfirmAction, FormDialog, useAction } from "../parts/form";
import { type Ends, ResourcePage, ResourcePanel } from "../parts/resource";
import { Secret } from "../parts/secret";
import { useSession } from "../parts/session";

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

export function Members() {
  const { who, may, offers } = useSession();
  const [made, setMade] = useState(0); // invitations, to read their list again
  const changes = may("account:write");
  return (
    <>
      <ResourcePage<Member>
        title="Members"
        path="/members"
        limit={50}
        label="Members"
        search={{ name: "q", label: "Name or email" }}
        nothing="No matching members"
        empty={{ title: "No members", text: "Invite people to give each their own sign-in and role. Programs, and people with a key, do not need to be members." }}
        create={
          changes && {
            title: "Invite",
            dialog: ({ onClose, onNext }) => (
              <Invite
                onClose={onClose}
                onDone={(link) => {
                  setMade((n) => n + 1);
                  onNext((ends) => <Link title="The invitation" link={link.link} expires={link.expiresAt} onClose={ends.onClose} />);
                }}
              />
            ),
          }
        }
        columns={[
          {
            title: "Name",
            show: (m) => (
              <div>
                <div class="breaks">
                  {nameOf(m)} {m.id === who.person?.id && <Badge meaning="accent">you</Badge>}
                </div>
                {m.name && m.email && <div class="small muted breaks">{m.email}</div>}
              </div>
            ),
          },
          {
            title: "Role",
            show: (m) => (
              <div>
                {m.role} {m.operatorRole && <Badge>operator: {m.operatorRole}</Badge>}
                {m.source === "group" && <div class="small muted">by a group</div>}
              </div>
            ),
          },
          { title: "Last used", named: true, show: (m) => (m.lastUsedAt ? <Time at={m.lastUsedAt} /> : <span class="muted">never</span>) },
          { title: "Joined", named: true, show: (m) => <Time at={m.createdAt} /> },
        ]}
        actions={[
          { title: "Changes", kind: "quiet", when: () => offers("listAudit"), run: (m) => location.assign("#/audit?actor=" + m.keyId) },
          { title: "Role", when: () => changes, dialog: (ends, m) => <ChangeRole of={m} {...ends} /> },
          {
            title: "Sign-in link",
            when: (m) => changes && m.issuer === null,
            dialog: ({ onClose, onNext }, m) => <MakeLink of={m} onClose={onClose} onDone={(link) => onNext((ends) => <Link title={`A sign-in link for ${nameOf(m)}`} link={link.link} expires={link.expiresAt} onClose={ends.onClose} />)} />,
          },
          { title: "Remove", kind: "danger", when: () => changes, dialog: (ends, m) => <Remove of={m} {...ends} /> },
        ]}
      />
      <ResourcePanel<Invitation>
        title="Open invitations"
        path="/invitations"
        limit={50}
        changed={made}
        label="Open invitations"
        few={8}
        search={{ name: "invitation", label: "Name or role", param: (q) => ({ q }) }}
        nothing="No such invitations"
        empty={{ title: "No open invitations" }}
        columns={[
          { title: "Name", show: (i) => i.name || <span class="muted">anyone with the link</span> },
          {
            title: "Role",
            show: (i) => (
              <div>
                {i.role} {i.operatorRole && <Badge>operator: {i.operatorRole}</Badge>}
              </div>
            ),
          },
          { title: "Expires", named: true, show: (i) => <Time at={i.expiresAt} /> },
        ]}
        actions={[{ title: "Revoke", kind: "danger", when: () => changes, dialog: (ends, i) => <Revoke of={i} {...ends} /> }]}
      />
    </>
  );
}

// RoleFields choose the roles of a member.
function RoleFields({ role, operatorRole, onRole, onOperatorRole }: { role: Role; operatorRole: OperatorRole; onRole: (role: Role) => void; onOperatorRole: (role: OperatorRole) => void }) {
  const { may } = useSession();
  return (
    <>
      <SelectField id="role" label="Role" options={roles} value={role} onChange={onRole} />
      {(may("operator") || operatorRole) && <SelectField id="operator-role" label="Operator role" hint="Only in the account of the service's operator." options={operatorRoles} value={operatorRole} onChange={onOperatorRole} />}
    </>
  );
}

function Invite({ onDone, onClose }: { onDone: (made: InvitationWithLink) => void; onClose: () => void }) {
  const { api } = useSession();
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("member");
  const [operatorRole, setOperatorRole] = useState<OperatorRole>("");
  const action = useAction();
  const submit = () =>
    action.run(async (once) => {
      const body: InviteMember = { role };
      if (name.trim()) body.name = name.trim();
      if (operatorRole) body.operatorRole = operatorRole;
      onDone(await api.create<InvitationWithLink>("/members", body, once));
    });
  return (
    <FormDialog id="invite" title="Invite" submit="Create the link" action={action} onSubmit={submit} onClose={onClose}>
      <TextField id="member-name" label="Name" hint="Of the person, as others see it." placeholder="as they give it" maxLength={200} value={name} onChange={setName} autofocus />
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

export function Link({ title, link, expires, onClose }: { title: string; link: string; expires: string; onClose: () => void }) {
  return (
    <Secret title={title} text={link} onClose={onClose}>
      Send it over a channel that only this person can read. It works once and expires <Time at={expires} />.
    </Secret>
  );
}

function Remove({ of: m, ...ends }: { of: Member } & Ends) {
  const { api, who } = useSession();
  const [keys, setKeys] = useState<"end" | "keep">("end");
  return (
    <ConfirmAction title={`Remove ${nameOf(m)}?`} action="Remove the member" work={() => api.remove("/members/" + m.id, { keys })} said={`${nameOf(m)} is no longer a member`} {...ends}>
      <p>{nameOf(m)} is signed out of this account within a second.{m.source === "group" && " The groups of the identity provider make them a member again at the next sign-in."}</p>
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

function Revoke({ of: i, ...ends }: { of: Invitation } & Ends) {
  const { api } = useSession();
  return (
    <ConfirmAction title="Revoke the invitation?" action="Revoke the invitation" work={() => api.remove("/invitations/" + i.id)} said="The invitation is revoked" {...ends}>
      <p>Its link stops working.</p>
    </ConfirmAction>
  );
}
