// One scheduled task: its next runs, and the result of each earlier one.
import { useEffect, useState } from "preact/hooks";
import { going } from "../../lib/agents";
import { onceKey } from "../../lib/api";
import { count, duration, moment, of } from "../../lib/format";
import type { Task, TaskRun } from "../../lib/tasks";
import { Amount, Button, Time } from "../parts/basic";
import { GivenSecrets, hasSecrets } from "../parts/credentials";
import { Confirm } from "../parts/dialog";
import { useAction } from "../parts/form";
import { Empty, Failure, States, useLoad } from "../parts/load";
import { When } from "../parts/schedule";
import { Pages, useList } from "../parts/table";
import { toast } from "../parts/toast";
import { go } from "../parts/router";
import { useSession } from "../parts/session";
import { Status } from "../parts/status";
import { TaskForm, TaskState } from "./tasks";

const skips: Record<string, string> = {
  missed: "the service was down",
  catch_up_window: "missed too long ago",
  overlap: "the previous run was still active",
  queue_full: "too many runs were queued",
  paused: "the task was paused",
  account_suspended: "the account was suspended",
  could_not_start: "the session could not start",
};
const triggers: Record<TaskRun["trigger"], string> = { schedule: "at set times", catch_up: "made up for", manual: "on demand" };

const again = 3000; // polling interval of a run in milliseconds

export function TaskView({ agentId, id }: { agentId: string; id: string }) {
  const { api, may } = useSession();
  const path = `/api-agents/${agentId}/scheduled-tasks/${id}`;
  const task = useLoad((signal) => api.get<Task>(path, undefined, signal), [api, path]);
  const history = useList<TaskRun>(path + "/runs", 20);
  const { busy, problem, run } = useAction({ repeats: true });
  const [changing, setChanging] = useState(false);
  const [deleting, setDeleting] = useState(false);
  const writes = may("schedules:write");
  const runs = history.first.data?.data.some((r) => going(r.status)) ?? false;
  const next = task.data?.nextRunAt;

  const reload = () => {
    task.reload();
    history.first.reload();
  };
  useEffect(() => {
    if (!runs) return;
    const timer = setInterval(reload, again);
    return () => clearInterval(timer);
  }, [runs]);
  useEffect(() => {
    // Shortly after the next instant there is a run to show. Waits beyond the maximum
    // of a timer are ignored.
    const wait = next ? new Date(next).getTime() - Date.now() + 1500 : Infinity;
    if (wait > 86_400_000) return;
    const timer = setTimeout(reload, Math.max(wait, again));
    return () => clearTimeout(timer);
  }, [next]);

  const act = async (said: string, work: () => Promise<unknown>) => {
    if (await run(work)) toast(said);
    reload();
  };
  const post = (verb: string, headers?: Record<string, string>) => api.raw("POST", `${path}/${verb}`, { headers });
  return (
    <>
      <p class="small muted crumb">
        <a class="back" href={`#/agents/${agentId}/schedules`}>
          Scheduled tasks
        </a>
      </p>
      <States of={task}>
        {(t) => (
          <>
            <section class="panel">
              <header>
                <h2 class="main">{t.name}</h2>
                <TaskState of={t} />
                {writes && (
                  <div class="row push">
                    <Button small icon="play" disabled={busy} onClick={() => act("It runs", () => post("run", { "Idempotency-Key": onceKey() }))}>
                      Run now
                    </Button>
                    {t.status === "active" && (
                      <Button small icon="pause" disabled={busy} onClick={() => act("It is paused", () => post("pause"))}>
                        Pause
                      </Button>
                    )}
                    {t.status === "paused" && (
                      <Button small icon="again" disabled={busy} onClick={() => act("Resumed", () => post("resume"))}>
                        Resume
                      </Button>
                    )}
                    <Button small disabled={busy} onClick={() => setChanging(true)}>
                      Change
                    </Button>
                    <Button small kind="quiet" icon="trash" label="Delete the task" disabled={busy} onClick={() => setDeleting(true)} />
                  </div>
                )}
              </header>
              {problem && (
                <div class="pad">
                  <Failure problem={problem} />
                </div>
              )}
              <dl class="facts body">
                <dt>When</dt>
                <dd>
                  <When of={t.schedule} exact />
                </dd>
                <dt>So far</dt>
                <dd>
                  {count(t.counters.completed)} completed, {count(t.counters.failed)} failed, {count(t.counters.cancelled)} cancelled, {count(t.counters.skipped)} skipped
                  {t.counters.consecutiveFailures > 0 && <span class="muted">; {of(t.counters.consecutiveFailures, "failure")} in a row{t.pauseAfterFailures > 0 && `, it pauses at ${t.pauseAfterFailures}`}</span>}
                </dd>
                <dt>Message</dt>
                <dd class="breaks pre">{t.message}</dd>
                <dt>Next runs</dt>
                <dd>
                  {t.upcomingRunsAt.length === 0 && <span class="muted">{t.status === "paused" ? "none while it is paused" : "none"}</span>}
                  <ul class="instants">
                    {t.upcomingRunsAt.map((at) => (
                      <li>
                        {moment(at)} <span class="small muted"><Time at={at} /></span>
                      </li>
                    ))}
                  </ul>
                </dd>
                {hasSecrets(t.credentials) && (
                  <>
                    <dt>Secrets of its sessions</dt>
                    <dd>
                      <GivenSecrets of={t.credentials} />
                    </dd>
                  </>
                )}
              </dl>
            </section>
            {changing && (
              <TaskForm
                agentId={agentId}
                task={t}
                onClose={() => setChanging(false)}
                onDone={() => {
                  setChanging(false);
                  toast("Saved");
                  reload();
                }}
              />
            )}
            {deleting && (
              <Confirm
                title={`Delete "${t.name}"?`}
                action="Delete the task"
                busy={busy}
                onClose={() => setDeleting(false)}
                onConfirm={async () => {
                  if (await run(() => api.remove(path))) {
                    toast("The task is deleted");
                    go(`agents/${agentId}/schedules`);
                  } else setDeleting(false);
                }}
              >
                <p>Its history is deleted and it no longer runs. Its sessions are kept, and a running one continues.</p>
              </Confirm>
            )}
          </>
        )}
      </States>
      {(task.data || task.problem) && ( // not before: the task would move it
        <section class="panel" aria-labelledby="history">
          <header>
            <h2 id="history">History</h2>
            <div class="push">
              <Button small icon="again" disabled={history.first.loading} onClick={reload}>
                Refresh
              </Button>
            </div>
          </header>
          <Pages
            of={history}
            label="History"
            empty={
              <Empty title="No runs yet">
                <p>Each run, also a skipped one, appears here.</p>
              </Empty>
            }
            columns={[
              {
                title: "For",
                show: (r) => (
                  <>
                    {r.sessionId ? <a class="nowrap" href={`#/agents/${agentId}/sessions/${r.sessionId}`}>{moment(r.scheduledFor)}</a> : <span class="nowrap">{moment(r.scheduledFor)}</span>}
                    {r.instants > 1 && r.throughScheduledFor && (
                      <div class="small muted">
                        and {of(r.instants - 1, "more instant")} until {moment(r.throughScheduledFor)}
                      </div>
                    )}
                    {r.error && <div class="small reason">{r.error.message}</div>}
                    {r.skipReason && <div class="small muted">{skips[r.skipReason] ?? r.skipReason}</div>}
                    {r.waitingFor && <div class="small muted">{r.waitingFor === "overlap" ? "waits for the previous run" : "waits for a place in the queue"}</div>}
                  </>
                ),
              },
              { title: "Outcome", keep: 3, show: (r) => <Status of={r.status} /> },
              { title: "Started", show: (r) => <span class="nowrap">{r.status === "skipped" ? <span class="muted">not at all</span> : triggers[r.trigger]}</span> },
              { title: "Late by", number: true, show: (r) => (r.delaySeconds ? `${count(r.delaySeconds)} s` : "") },
              { title: "Took", number: true, keep: 1, show: (r) => (r.startedAt && r.finishedAt ? duration(new Date(r.finishedAt).getTime() - new Date(r.startedAt).getTime()) : "") },
              { title: "Credits", number: true, keep: 2, show: (r) => r.creditsMicro != null && <Amount of={r.creditsMicro} as="column" /> },
            ]}
          />
        </section>
      )}
    </>
  );
}
