// The scheduled tasks of an agent, and the form to create or change one.
import { useRef, useState } from "preact/hooks";
import { count } from "../../lib/format";
import type { Task } from "../../lib/tasks";
import { Badge, type Meaning, Time } from "../parts/basic";
import { useAgent, useOwnSecrets } from "../parts/credentials";
import { AreaField, SelectField, TextField } from "../parts/fields";
import { FormDialog, useAction } from "../parts/form";
import { ResourcePanel } from "../parts/resource";
import { draftOf, Runs, ScheduleFields, scheduleOf, When } from "../parts/schedule";
import { go } from "../parts/router";
import { useSession } from "../parts/session";
import { Status } from "../parts/status";

const states: Record<Task["status"], Meaning> = { active: "ok", paused: "none", finished: "none" };
const why: Record<string, string> = { failures: "after failures", invalid_schedule: "its schedule no longer works", key_revoked: "with its key" };

export function TaskState({ of: t }: { of: Task }) {
  return (
    <Badge meaning={t.pauseReason && why[t.pauseReason] ? "warning" : states[t.status]}>
      {t.status}
      {t.pauseReason && why[t.pauseReason] && ` ${why[t.pauseReason]}`}
    </Badge>
  );
}

export function TasksView({ agentId }: { agentId: string }) {
  const { may } = useSession();
  return (
    <ResourcePanel<Task>
      title="Scheduled tasks"
      path={`/api-agents/${agentId}/scheduled-tasks`}
      limit={20}
      label="Scheduled tasks"
      search={{ name: "q", label: "Name or message" }}
      nothing="No such tasks"
      create={may("schedules:write") && { title: "Schedule a task", dialog: ({ onClose }) => <TaskForm agentId={agentId} onClose={onClose} onDone={(t) => go(`agents/${agentId}/schedules/${t.id}`)} /> }}
      empty={{ title: "No scheduled tasks yet", text: "A task starts a session on a schedule: a report each morning, a check each hour." }}
      columns={[
        { title: "Task", show: (t) => <a href={`#/agents/${agentId}/schedules/${t.id}`}>{t.name}</a> },
        { title: "When", keep: 1, show: (t) => <When of={t.schedule} /> },
        { title: "State", keep: 4, show: (t) => <TaskState of={t} /> },
        { title: "Next run", keep: 2, named: true, show: (t) => (t.nextRunAt ? <Time at={t.nextRunAt} /> : <span class="muted">none</span>) },
        {
          title: "Last run",
          keep: 3,
          named: true,
          show: (t) =>
            t.lastRun ? (
              <span class="nowrap">
                <Status of={t.lastRun.status} /> <span class="muted"><Time at={t.lastRun.scheduledFor} /></span>
              </span>
            ) : (
              <span class="muted">none</span>
            ),
        },
        { title: "Completed", number: true, show: (t) => count(t.counters.completed) },
        { title: "Failed", number: true, show: (t) => count(t.counters.failed) },
        { title: "Skipped", number: true, show: (t) => count(t.counters.skipped) },
      ]}
    />
  );
}

const missed: [Task["missedRunPolicy"], string][] = [["run_latest", "run the latest one"], ["run_all", "run all of them"], ["skip", "skip them"]];
const overlap: [Task["overlapPolicy"], string][] = [["skip", "skip the new run"], ["queue", "queue the new run"], ["allow", "run both"]];

// A TaskForm creates a task, or changes the given one.
export function TaskForm({ agentId, task, onClose, onDone }: { agentId: string; task?: Task; onClose: () => void; onDone: (t: Task) => void }) {
  const { api } = useSession();
  const [now, setNow] = useState<Pick<Task, "name" | "message" | "missedRunPolicy" | "overlapPolicy">>({ name: task?.name ?? "", message: task?.message ?? "", missedRunPolicy: task?.missedRunPolicy ?? "run_latest", overlapPolicy: task?.overlapPolicy ?? "skip" });
  const [reuse, setReuse] = useState(task?.sessionPolicy === "reuse");
  const [draft, setDraft] = useState(() => draftOf(task?.schedule));
  const action = useAction();
  const own = useOwnSecrets({ agent: useAgent(agentId).data, was: task?.credentials, users: false, problem: action.problem });
  const was = useRef(JSON.stringify(scheduleOf(draft)));
  const schedule = scheduleOf(draft);
  const change = (part: Partial<typeof now>) => setNow({ ...now, ...part });
  const submit = () =>
    action.run(async (once) => {
      const path = `/api-agents/${agentId}/scheduled-tasks`;
      const body: Record<string, unknown> = { ...now, name: now.name.trim(), sessionPolicy: reuse ? "reuse" : "new", ...own.body };
      if (!task) {
        onDone(await api.create<Task>(path, { ...body, schedule }, once));
        return;
      }
      // A schedule that is sent starts again, so it is sent only if it has changed.
      if (JSON.stringify(schedule) !== was.current) body.schedule = schedule;
      if (reuse === (task.sessionPolicy === "reuse")) delete body.sessionPolicy;
      onDone((await api.patch<Task>(`${path}/${task.id}`, body)).data);
    });
  return (
    <FormDialog
      id="task"
      title={task ? `Change "${task.name}"` : "Schedule a task"}
      submit={task ? "Save" : "Schedule the task"}
      ready={!!(now.name.trim() && now.message.trim() && schedule)}
      action={action}
      preview={<Runs agentId={agentId} schedule={schedule} />}
      shown={own.shown}
      onSubmit={submit}
      onClose={onClose}
    >
      <TextField id="task-name" label="Name" maxLength={200} value={now.name} onChange={(name) => change({ name })} autofocus />
      <AreaField id="task-message" label="Message" hint="The message to the agent at each run." rows={3} value={now.message} onChange={(message) => change({ message })} />
      <ScheduleFields value={draft} onChange={setDraft} />
      {own.fields}
      <details>
        <summary>More choices</summary>
        <div class="stack more-choices">
          <SelectField id="task-missed" label="Runs missed while the service was down" options={missed} value={now.missedRunPolicy} onChange={(missedRunPolicy) => change({ missedRunPolicy })} />
          <SelectField id="task-overlap" label="While the previous run is active" options={overlap} value={now.overlapPolicy} onChange={(overlapPolicy) => change({ overlapPolicy })} />
          <label class="check">
            <input type="checkbox" checked={reuse} onChange={(e) => setReuse(e.currentTarget.checked)} /> continue one session instead of starting a new one each time
          </label>
        </div>
      </details>
    </FormDialog>
  );
}
