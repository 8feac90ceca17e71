// One agent: its sessions, drive, schedules, hooks and embeds, its settings and earlier
// versions.
import { useRef } from "preact/hooks";
import type { Agent, AgentVersion } from "../../lib/agents";
import { Badge, Button, Id, Time } from "../parts/basic";
import { CallAgent } from "../parts/callagent";
import { Diff } from "../parts/diff";
import { useAction } from "../parts/form";
import { Empty, Failure, States } from "../parts/load";
import { Lost, Subject, type Tagged, useSubject } from "../parts/subject";
import { Pages, useList } from "../parts/table";
import { Tabs } from "../parts/tabs";
import { toast } from "../parts/toast";
import { go, useTitle } from "../parts/router";
import { useSession } from "../parts/session";
import { Comparison } from "./compare";
import { DriveView } from "./drive";
import { EmbedsView } from "./embeds";
import { HooksView } from "./hooks";
import { SessionView } from "./session";
import { SessionsView } from "./sessions";
import { Settings, versioned } from "./settings";
import { SkillsView } from "./skills";
import { TaskView } from "./task";
import { TasksView } from "./tasks";
import { TestsView } from "./tests";

export function AgentPage({ id, view, rest }: { id: string; view: string; rest: string }) {
  const { offers, may } = useSession();
  const agent = useSubject<Agent>("/api-agents/" + id);
  // The form resets after changes by other users, and keeps its state after its own
  // save.
  const saved = useRef("");
  const form = useRef("");
  if (agent.data && agent.data.etag !== saved.current) form.current = agent.data.etag;
  const tabs = [
    { id: "sessions", title: "Sessions", shown: offers("listSessions") },
    { id: "drive", title: "Drive", shown: offers("listDriveFiles") },
    { id: "skills", title: "Skills", shown: offers("listSkills") },
    { id: "schedules", title: "Schedules", shown: offers("listScheduledTasks") },
    { id: "hooks", title: "Hooks", shown: offers("listHooks") },
    { id: "embeds", title: "Embeds", shown: offers("listEmbedURLs") },
    { id: "tests", title: "Tests", shown: offers("listTestSets") },
    { id: "call", title: "Call", shown: true },
    { id: "settings", title: "Settings", shown: true },
    { id: "versions", title: "Versions", shown: offers("listAgentVersions") },
  ].filter((t) => t.shown);
  const wanted = view === "tasks" ? "schedules" : view; // its former address
  const active = tabs.some((t) => t.id === wanted) ? wanted : tabs[0]!.id;
  const [one, other] = rest.split("/with/"); // of two sessions that are compared
  const name = agent.data?.data.name;
  const section = tabs.find((t) => t.id === active)!.title;
  // A session has its own head and title.
  const inSession = one && !other && active === "sessions" && may("sessions:read") && agent.problem?.status !== 404;
  useTitle(!inSession && name && `${name} · ${section}`);
  if (inSession) return <SessionView key={one} agentId={id} agentName={name} version={agent.data?.data.version} id={one} />;
  if (view && active !== wanted) return <Lost what="page" why="An agent has no page of this name." to={`agents/${id}`} back="agent" />;
  return (
    <Subject of={agent} what="agent" list="agents" title={name} state={agent.data && <span class="small muted">{agent.data.data.model} · version {agent.data.data.version}</span>} aside={<div class="push small muted"><Id of={id} /></div>}>
      <Tabs label="Agent" tabs={tabs} active={active} onChange={(tab) => go(`agents/${id}/${tab}`)} />
      {active === "sessions" &&
        (!may("sessions:read") ? (
          <Lacking scope="sessions:read" />
        ) : other ? (
          <Comparison agentId={id} ids={[one!, other]} />
        ) : (
          <SessionsView agentId={id} />
        ))}
      {active === "drive" && (may("drive:read") ? <DriveView agentId={id} folder={rest} /> : <Lacking scope="drive:read" />)}
      {active === "skills" && (may("agents:read") ? <States of={agent}>{(a) => <SkillsView agentId={id} spaceId={a.data.spaceId} onChanged={agent.reload} />}</States> : <Lacking scope="agents:read" />)}
      {active === "schedules" && (!may("schedules:read") ? <Lacking scope="schedules:read" /> : rest ? <TaskView key={rest} agentId={id} id={rest} /> : <TasksView agentId={id} />)}
      {active === "hooks" && (may("schedules:read") ? <HooksView agentId={id} /> : <Lacking scope="schedules:read" />)}
      {active === "embeds" && (may("embeds:write") ? <States of={agent}>{(a) => <EmbedsView agentId={id} name={a.data.name} enabled={a.data.embedEnabled} shown={rest} />}</States> : <Lacking scope="embeds:write" />)}
      {active === "tests" && <States of={agent}>{(a) => <TestsView agent={a.data} rest={rest} />}</States>}
      {active === "call" && <States of={agent}>{(a) => <CallAgent agent={a.data} />}</States>}
      {active === "settings" && (
        <States of={agent}>
          {(a) => (
            <Settings
              key={form.current}
              agent={a}
              onSaved={(now) => {
                saved.current = now.etag;
                agent.set(now);
              }}
              onStale={agent.reload}
            />
          )}
        </States>
      )}
      {active === "versions" && <States of={agent}>{(a) => <Versions agent={a} onBack={agent.set} />}</States>}
    </Subject>
  );
}

function Lacking({ scope }: { scope: string }) {
  return (
    <section class="panel">
      <Empty title="Not with this key">
        <p>
          It does not have the scope <code>{scope}</code>.
        </p>
      </Empty>
    </section>
  );
}

// The other members of a version are settings, and have a title if they are in "versioned".
const notSettings = ["agentId", "version", "createdAt"];

const textOf = (value: unknown): string => (typeof value === "string" ? value : value == null ? "default" : JSON.stringify(value, undefined, 2));

// changesOf returns the settings of a version that differ from an earlier one; without it, all.
function changesOf(v: AgentVersion, was?: AgentVersion) {
  const texts = (of?: AgentVersion) => new Map(Object.entries(of ?? {}).map(([name, value]) => [name, textOf(value)]));
  const before = texts(was);
  const now = texts(v);
  return [...new Set([...Object.keys(versioned), ...now.keys()])]
    .filter((name) => !notSettings.includes(name) && now.has(name) && now.get(name) !== before.get(name))
    .map((name) => ({ title: versioned[name] ?? name, was: before.get(name), now: now.get(name)! }));
}

function Changes({ of: v, was }: { of: AgentVersion; was?: AgentVersion }) {
  const changes = changesOf(v, was);
  return (
    <details class="clip">
      <summary>{was ? changes.map((c) => c.title).join(", ") || "None" : v.version === 1 ? "First version" : "All settings"}</summary>
      <dl>
        {changes.map((c) => (
          <>
            <dt>{c.title}</dt>
            <dd>
              <Diff was={c.was} now={c.now} />
            </dd>
          </>
        ))}
      </dl>
    </details>
  );
}

function Versions({ agent, onBack }: { agent: Tagged<Agent>; onBack: (a: Tagged<Agent>) => void }) {
  const { api, may } = useSession();
  const path = "/api-agents/" + agent.data.id;
  const pages = useList<AgentVersion>(path + "/versions", 20, agent.etag);
  const { busy, problem, run } = useAction({ repeats: true });
  const back = (version: number) =>
    run(async (once) => {
      const reply = await api.raw("POST", path + "/rollback", { body: { version }, headers: { "If-Match": agent.etag, "Idempotency-Key": once } });
      onBack({ data: await reply.json(), etag: reply.headers.get("ETag") ?? "" });
      toast(`Back to version ${version}`);
    });
  return (
    <section class="panel">
      {problem && (
        <div class="pad">
          <Failure problem={problem} />
        </div>
      )}
      <Pages
        of={pages}
        label="Versions"
        empty={<Empty title="No versions" />}
        columns={[
          { title: "Version", show: (v) => <span class="nowrap">{v.version} {v.version === agent.data.version && <Badge meaning="accent">now</Badge>}</span> },
          { title: "Since", show: (v) => <Time at={v.createdAt} /> },
          { title: "Model", show: (v) => <span class="nowrap">{v.model}</span> },
          {
            title: "Changes",
            grows: true,
            tall: true,
            show: (v) => <Changes of={v} was={pages.rows.find((x) => x.version < v.version)} />,
          },
          {
            title: "",
            show: (v) =>
              may("agents:write") &&
              v.version !== agent.data.version && (
                <Button small disabled={busy} onClick={() => back(v.version)}>
                  Go back to it
                </Button>
              ),
          },
        ]}
      />
    </section>
  );
}
