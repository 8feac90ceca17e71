// The skills of an agent: which it uses, what has changed since their review, and the import of archives.
import { useRef, useState } from "preact/hooks";
import type { Connection, ImportServerSkills, ReviewSkill, Skill, SkillFile, SkillList } from "../../lib/contract";
import { visible } from "../../lib/exact";
import { of, size } from "../../lib/format";
import type { List } from "../../lib/types";
import { Badge, Button, type Meaning, Notice } from "../parts/basic";
import { Diff } from "../parts/diff";
import { Dialog } from "../parts/dialog";
import { EscapedText } from "../parts/escapedtext";
import { Facts } from "../parts/facts";
import { SelectField, TextField } from "../parts/fields";
import { ConfirmAction, FormDialog, useAction } from "../parts/form";
import { Empty, Failure, States, useLoad } from "../parts/load";
import { Menu } from "../parts/menu";
import { type Ends, useDialogs } from "../parts/resource";
import { useSession } from "../parts/session";
import { Table } from "../parts/table";
import { toast } from "../parts/toast";

const states: Record<Skill["state"], [Meaning, string]> = { active: ["ok", "in use"], changed: ["warning", "withheld: changed"], missing: ["failed", "withheld: missing"], new: ["info", "to review"], invalid: ["failed", "invalid"] };

export function SkillsView({ agentId, spaceId, onChanged }: { agentId: string; spaceId: string; onChanged: () => void }) {
  const { api, may, offers } = useSession();
  const path = `/api-agents/${agentId}/skills`;
  const list = useLoad((signal) => api.get<SkillList>(path, undefined, signal), [api, path]);
  const { busy, problem, run } = useAction({ repeats: true });
  const picker = useRef<HTMLInputElement>(null);
  const take = async (input: HTMLInputElement) => {
    const file = input.files?.[0];
    input.value = ""; // so that the same file can be chosen again
    if (file && (await run(async () => toast(`${of(((await (await api.raw("POST", path + "/import", { file })).json()) as SkillList).data.length, "skill")} imported`)))) list.reload();
  };
  const again = () => {
    list.reload();
    onChanged();
  };
  const { open, dialog } = useDialogs<"review" | "remove" | "connection", Skill | undefined>(
    {
      review: (ends, s) => <Review path={path} name={s!.name} ends={ends} />,
      remove: (ends, s) => (
        <ConfirmAction title={`Stop using "${s!.name}"?`} action="Stop using it" work={() => api.remove(`${path}/${encodeURIComponent(s!.name)}`)} said={`The agent no longer uses "${s!.name}"`} {...ends}>
          <p>New sessions do not get it. Its files stay in the drive.</p>
        </ConfirmAction>
      ),
      connection: (ends) => <FromConnection path={path} spaceId={spaceId} ends={ends} />,
    },
    again,
  );
  return (
    <section class="panel" aria-labelledby="skills">
      <header>
        <h2 id="skills">Skills</h2>
        {list.data && list.data.tokens > 0 && (
          <span class="small muted">
            {of(list.data.tokens, "token")} of at most {list.data.maxTokens.toLocaleString("en")} in each call
          </span>
        )}
        {may("drive:write") && (
          <div class="row push">
            <input ref={picker} class="unseen" type="file" accept=".zip,.tgz,.gz,application/zip,application/gzip" tabIndex={-1} aria-label="Archive of skills" onChange={(e) => void take(e.currentTarget)} />
            <Button small icon="upload" disabled={busy} onClick={() => picker.current?.click()}>
              Import a zip
            </Button>
            {may("agents:write") && offers("listConnections") && may("connections:read") && <Menu label="Actions" items={[{ title: "Import from a connection", onClick: () => open("connection", undefined) }]} />}
          </div>
        )}
      </header>
      {problem && (
        <div class="pad">
          <Failure problem={problem} />
        </div>
      )}
      <States of={list}>
        {(l) =>
          l.data.length === 0 ? (
            <Empty title="No skills yet">
              <p>
                A skill is a folder with instructions for a task, in the format of agentskills.io, that the agent reads when it needs them. Import a zip, then review it. <a href="/docs/skills">The guide</a> has examples.
              </p>
            </Empty>
          ) : (
            <Table
              label="Skills"
              rows={l.data}
              columns={[
                {
                  title: "Skill",
                  grows: true,
                  tall: true,
                  show: (s) => (
                    <>
                      <button type="button" class="link" onClick={() => open("review", s)}>
                        {s.name}
                      </button>
                      <div class="small muted">
                        <EscapedText text={visible(s.description ?? s.errors[0] ?? "")} />
                      </div>
                    </>
                  ),
                },
                { title: "State", keep: 1, show: (s) => <Badge meaning={states[s.state]?.[0]}>{states[s.state]?.[1] ?? s.state}</Badge> },
                { title: "Files", number: true, show: (s) => s.files.length },
                {
                  title: "",
                  show: (s) => (
                    <span class="nowrap">
                      {may("drive:read") && s.state !== "active" && (
                        <Button small onClick={() => open("review", s)}>
                          Review
                        </Button>
                      )}
                      {may("agents:write") && s.used && (
                        <Button small kind="quiet" onClick={() => open("remove", s)}>
                          Stop using
                        </Button>
                      )}
                    </span>
                  ),
                },
              ]}
            />
          )
        }
      </States>
      {dialog}
    </section>
  );
}

// FromConnection copies the skills of a server.
function FromConnection({ path, spaceId, ends }: { path: string; spaceId: string; ends: Ends }) {
  const { api } = useSession();
  const connections = useLoad((signal) => api.get<List<Connection>>("/connections", { spaceId, limit: 100 }, signal), [api, spaceId]);
  const [chosen, setChosen] = useState("");
  const [names, setNames] = useState("");
  const action = useAction();
  const list = connections.data?.data.filter((c) => c.kind === "mcp" && c.enabled) ?? [];
  const skills = names.split(/[\s,]+/).filter(Boolean);
  const submit = () =>
    action.run(async () => {
      const reply = await api.raw("POST", path, { body: { connectionId: chosen, ...(skills.length ? { skills } : {}) } satisfies ImportServerSkills });
      ends.onDone(`${of(((await reply.json()) as SkillList).data.length, "skill")} imported`);
    });
  return (
    <FormDialog id="skills-import" title="Import from a connection" submit="Import" ready={!!chosen} action={action} onSubmit={submit} onClose={ends.onClose}>
      <p>The files are copied once, from a server that declares the skills extension of MCP. Then review them.</p>
      <States of={connections}>
        {() => <SelectField id="skills-connection" label="Connection" value={chosen} options={[["", list.length ? "Choose one" : "There are none in this space"], ...list.map((c): [string, string] => [c.id, c.name])]} onChange={setChosen} />}
      </States>
      <TextField id="skills-names" label="Skills" hint="Names or URIs, separated by spaces. Empty: all, at most 32." maxLength={10000} value={names} onChange={setNames} />
    </FormDialog>
  );
}

// Review shows what somebody decides about: the texts of a new skill, or what has changed.
function Review({ path, name, ends }: { path: string; name: string; ends: Ends }) {
  const { api, may } = useSession();
  const at = `${path}/${encodeURIComponent(name)}`;
  const skill = useLoad((signal) => api.get<Skill>(at, undefined, signal), [api, at]);
  const { busy, problem, run } = useAction({ repeats: true });
  const s = skill.data;
  const decidable = s && s.state !== "active" && s.digest && s.errors.length === 0 && may("agents:write");
  const use = async () => {
    const done = await run(() => api.raw("PUT", at, { body: { digest: s!.digest! } satisfies ReviewSkill }));
    if (done) ends.onDone(`New sessions get "${name}"`);
    else skill.reload(); // its files may have changed
  };
  return (
    <Dialog
      title={name}
      wide
      onClose={ends.onClose}
      footer={
        <>
          {decidable && (
            <Button kind="main" disabled={busy} onClick={() => void use()}>
              {s.used ? "Use it with these changes" : "Use it"}
            </Button>
          )}
          <Button onClick={ends.onClose}>Close</Button>
        </>
      }
    >
      {problem && <Failure problem={problem} />}
      <States of={skill}>
        {(s) => (
          <>
            {s.errors.map((text) => (
              <Notice meaning="failed" key={text}>
                <EscapedText text={text} />
              </Notice>
            ))}
            {s.warnings.map((text) => (
              <Notice meaning="waiting" key={text}>
                <EscapedText text={text} />
              </Notice>
            ))}
            {decidable && <p>The agent obeys these texts as it obeys its instructions. Scripts are read and never run.</p>}
            <Facts
              of={[
                ["State", <Badge meaning={states[s.state]?.[0]}>{states[s.state]?.[1] ?? s.state}</Badge>],
                ["For", <EscapedText text={visible(s.description ?? "")} />],
                s.source && ["From the server", <EscapedText text={visible(s.source)} />],
                s.license && ["License", <EscapedText text={visible(s.license)} />],
                s.compatibility && ["Compatibility", <EscapedText text={visible(s.compatibility)} />],
                s.allowedTools && ["Allowed tools", <><EscapedText text={visible(s.allowedTools)} /> <span class="muted">(without effect)</span></>],
                Object.keys(s.metadata).length > 0 && ["Metadata", <EscapedText text={visible(Object.entries(s.metadata).map(([key, value]) => `${key}: ${value}`).join(", "))} />],
              ]}
            />
            {s.files.map((f) => (
              <File key={f.path} of={f} used={s.used} />
            ))}
          </>
        )}
      </States>
    </Dialog>
  );
}

function File({ of: f, used }: { of: SkillFile; used: boolean }) {
  const text = visible(f.text ?? "");
  const hidden = !text && f.size > 0 && (f.change !== "removed" || !f.reviewedText);
  return (
    <section>
      <h3>
        <EscapedText text={f.path} /> <span class="small muted">{size(f.size)}</span> {f.change && <Badge meaning="warning">{f.change}</Badge>}
      </h3>
      {used && !f.change ? null : hidden ? <p class="small muted">Not shown: it is not a text, or larger than 64 KiB.</p> : <Diff was={visible(f.reviewedText ?? "")} now={text} data />}
    </section>
  );
}
