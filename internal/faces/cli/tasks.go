package cli

import (
	"cmp"
	"time"

	"github.com/spf13/cobra"

	"stoa/internal/base/jsonx"
)

var viewTasks = viewTask.only("id", "name", "status", "nextRunAt", "lastRun.status", "counters.started", "counters.failed")

var viewTask = view{"ScheduledTask", []column{
	{"Id", "id", ident},
	{"Agent", "agentId", ident},
	{"Name", "name", objectTitle},
	{"Message", "message", plain},
	{"Mode", "mode", plain},
	{"Schedule", "schedule", timetable},
	{"Status", "status", state},
	{"Pause reason", "pauseReason", plain},
	{"Next run", "nextRunAt", when},
	{"Upcoming", "upcomingRunsAt", instants},
	{"Last run", "lastRun.status", state},
	{"Runs", "counters.started", count},
	{"Completed", "counters.completed", count},
	{"Failed", "counters.failed", count},
	{"Skipped", "counters.skipped", count},
	{"Starts", "startAt", when},
	{"Ends", "endAt", when},
	{"Maximum runs", "maxRuns", count},
	{"Session policy", "sessionPolicy", plain},
	{"Missed runs", "missedRunPolicy", plain},
	{"Overlap", "overlapPolicy", plain},
	{"Pauses after failures", "pauseAfterFailures", count},
	{"Credits per run", "maxCreditsMicroPerRun", credits},
	{"Credentials", "credentials", plain},
	{"Created", "createdAt", when},
}}

var viewRuns = view{"TaskRun", []column{
	{"Run", "id", ident},
	{"For", "scheduledFor", when},
	{"Trigger", "trigger", plain},
	{"Status", "status", state},
	{"Skip reason", "skipReason", plain},
	{"Why", "error.code", plain},
	{"Session", "sessionId", ident},
}}

var viewPreview = view{"PreviewedRun", []column{{"Instant", "at", plain}, {"Local time", "localTime", plain}, {"Moved by", "adjustment", plain}}}

func scheduleFlags(c *cobra.Command) setter {
	f := c.Flags()
	cron := f.String("cron", "", "a cron `expression`, such as \"0 9 * * MON-FRI\" or @daily")
	timezone := f.String("timezone", "", "the time `zone` of --cron, such as Europe/Berlin (default UTC)")
	every := f.String("every", "", "an `interval` such as 15m, at least a minute")
	once := f.String("at", "", "a single `time`: 2026-12-24T18:00:00Z, or a duration from now such as 2h")
	sends(c, "cron", "schedule.expression")
	sends(c, "every", "schedule.everySeconds")
	sends(c, "at", "schedule.runAt")
	return func(body map[string]any) error {
		given := 0
		for _, text := range []string{*cron, *every, *once} {
			if text != "" {
				given++
			}
		}
		switch {
		case given > 1:
			return usagef("--cron, --every and --at exclude each other")
		case *timezone != "" && *cron == "":
			return usagef("--timezone requires --cron")
		case *cron != "":
			body["schedule"] = map[string]any{"type": "cron", "expression": *cron, "timezone": cmp.Or(*timezone, "UTC")}
		case *every != "":
			d, err := span(*every)
			if err != nil {
				return err
			}
			body["schedule"] = map[string]any{"type": "interval", "everySeconds": int64(d / time.Second)}
		case *once != "":
			t, err := moment(*once, time.Now(), false)
			if err != nil {
				return err
			}
			body["schedule"] = map[string]any{"type": "once", "runAt": stamp(t)}
		}
		return nil
	}
}

var taskFields = []field{
	{"name", "name", asText, "the name"},
	{"message", "message", asFile, "the message to the agent; @FILE reads a file"},
	{"mode", "mode", asText, "the `mode`: once, or chat, where the agent can ask questions (default once)"},
	{"session", "sessionPolicy", asText, "the `policy`: new (a session for every run) or reuse (every run is a turn of one chat) (default new)"},
	{"missed", "missedRunPolicy", asChoice, "the `handling` of missed runs: run_latest, run_all or skip (default run_latest)"},
	{"overlap", "overlapPolicy", asText, "the `handling` of a run while an earlier one is active: skip, queue or allow (default skip)"},
	{"start", "startAt", asTime, "the earliest `time` of a run"},
	{"end", "endAt", asTime, "the latest `time` of a run"},
	{"max-credits", "maxCreditsMicroPerRun", asCredits, "the maximum cost of a run, in `credits`"},
	{"max-runs", "maxRuns", asNumber, "the `number` of runs after which it finishes (default: no limit)"},
	{"pause-after-failures=5", "pauseAfterFailures", asNumber, "the `number` of consecutive failed runs after which it pauses; 0 means never"},
	{"paused", "enabled", asNot, "create it paused"},
}

func (e *env) tasks() *cobra.Command {
	c := group("tasks", "Run agents on a schedule", "Run agents on a schedule: a scheduled task sends its agent a message at set times. AGENT is an id, an external id, or a unique name.")
	extra := []adder{scheduleFlags, credentialFlag("for each of its sessions")}
	c.AddCommand(e.verbs(
		verb{
			use: "create AGENT", short: "Create a task",
			long:    "Create a scheduled task: a message to the agent, sent according to --cron, --every or --at.",
			example: "  stoa tasks create support --name digest --message \"Sum up yesterday\" --cron \"0 9 * * MON-FRI\" --timezone Europe/Berlin\n  stoa tasks create support --name tidy --message @tidy.md --every 6h --max-credits 0.2",
			op:      "POST /api-agents/{AGENT}/scheduled-tasks", fields: taskFields, extra: extra, show: viewTask,
			needs: []string{"name", "message", "schedule"}, missing: "a task requires a --name, a --message, and one of --cron, --every and --at",
		},
		verb{
			use: "list AGENT", short: "List the tasks of an agent",
			long: "List the scheduled tasks of an agent, newest first.", example: "  stoa tasks list support",
			op: "GET /api-agents/{AGENT}/scheduled-tasks", rows: viewTasks, fields: []field{searchField("name, message or id")}, none: "There are no scheduled tasks.",
		},
		verb{
			use: "get AGENT TASK", short: "Show a task",
			long: "Show a task with its next runs.", example: "  stoa tasks get support tsk_01k9zqd3m8w5x7y2c4b6n8p0ra",
			op: "GET /api-agents/{AGENT}/scheduled-tasks/{TASK}", show: viewTask,
		},
		verb{
			use: "update AGENT TASK", short: "Change a task",
			long: "Change the given settings; an empty text clears.", example: "  stoa tasks update support tsk_01k9zqd3m8w5x7y2c4b6n8p0ra --every 1h",
			op: "PATCH /api-agents/{AGENT}/scheduled-tasks/{TASK}", fields: taskFields, extra: extra, show: viewTask, missing: nothingChanges,
		},
		verb{
			use: "disable AGENT TASK", short: "Pause a task",
			long: "Pause a task. Active runs continue.", example: "  stoa tasks disable support tsk_01k9zqd3m8w5x7y2c4b6n8p0ra",
			op: "POST /api-agents/{AGENT}/scheduled-tasks/{TASK}/pause", show: viewTask,
		},
		verb{
			use: "enable AGENT TASK", short: "Resume a paused task",
			long: "Resume a paused task with its next instant from now.", example: "  stoa tasks enable support tsk_01k9zqd3m8w5x7y2c4b6n8p0ra",
			op: "POST /api-agents/{AGENT}/scheduled-tasks/{TASK}/resume", show: viewTask,
		},
		verb{
			use: "run AGENT TASK", short: "Run a task now",
			long: "Run a task now, even while it is paused, and show the run.", example: "  stoa tasks run support tsk_01k9zqd3m8w5x7y2c4b6n8p0ra",
			op: "POST /api-agents/{AGENT}/scheduled-tasks/{TASK}/run", show: viewRuns,
		},
		verb{
			use: "runs AGENT TASK", short: "List the runs of a task",
			long: "List the runs of a task, newest first, including skipped ones with the reason.", example: "  stoa tasks runs support tsk_01k9zqd3m8w5x7y2c4b6n8p0ra",
			op: "GET /api-agents/{AGENT}/scheduled-tasks/{TASK}/runs", rows: viewRuns, none: "It has not run yet.",
		},
		verb{
			use: "preview AGENT", short: "Preview a schedule",
			long:    "Preview the next runs of a schedule; nothing is stored. Useful around daylight-saving changes.",
			example: "  stoa tasks preview support --cron \"30 2 * * *\" --timezone America/New_York --count 10",
			op:      "POST /api-agents/{AGENT}/scheduled-tasks/preview", fixed: map[string]any{"count": 5},
			fields: []field{{"count=5", "count", asNumber, "the `number` of runs to show, up to 100"}}, extra: []adder{scheduleFlags},
			needs: []string{"schedule"}, missing: "one of --cron, --every and --at is required",
			print: func(o *output, raw jsonx.Value) error {
				var found struct {
					Runs []jsonx.Value `json:"runs"`
				}
				if err := jsonx.Unmarshal(raw, &found); err != nil {
					return err
				}
				return o.list(viewPreview, sequence(found.Runs), 0, "The schedule never runs.")
			},
		},
		verb{
			use: "delete AGENT TASK...", short: "Delete tasks",
			long: "Delete tasks with the records of their runs. Sessions are kept.", example: "  stoa tasks delete support tsk_01k9zqd3m8w5x7y2c4b6n8p0ra --yes",
			op: "DELETE /api-agents/{AGENT}/scheduled-tasks/{TASK}", ask: asks("Delete %s with the records of its runs?", "the task", "tasks"),
		},
	)...)
	return c
}
