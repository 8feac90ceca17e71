package cli

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stoa/internal/client"
	"stoa/internal/jsonx"
)

func viewTasks() view {
	return view{"ScheduledTask", []column{
		{"Id", "id", plain},
		{"Name", "name", flexible},
		{"Status", "status", state},
		{"Next run", "nextRunAt", when},
		{"Last run", "lastRun.status", state},
		{"Runs", "counters.started", count},
		{"Failed", "counters.failed", count},
	}}
}

func viewTask() view {
	return view{"ScheduledTask", []column{
		{"Id", "id", plain},
		{"Agent", "agentId", plain},
		{"Name", "name", plain},
		{"Message", "message", plain},
		{"Mode", "mode", plain},
		{"Schedule", "schedule", timetable},
		{"Status", "status", state},
		{"Paused for", "pauseReason", plain},
		{"Next run", "nextRunAt", when},
		{"Upcoming", "upcomingRunsAt", instants},
		{"Last run", "lastRun.status", state},
		{"Runs", "counters.started", count},
		{"Completed", "counters.completed", count},
		{"Failed", "counters.failed", count},
		{"Skipped", "counters.skipped", count},
		{"Starts", "startAt", when},
		{"Ends", "endAt", when},
		{"Most runs", "maxRuns", count},
		{"Session policy", "sessionPolicy", plain},
		{"Missed runs", "missedRunPolicy", plain},
		{"Overlap", "overlapPolicy", plain},
		{"Pauses after failures", "pauseAfterFailures", count},
		{"Credits per run", "maxCreditsMicroPerRun", credits},
		{"Credentials", "credentials", plain},
		{"Created", "createdAt", when},
	}}
}

func viewRuns() view {
	return view{"TaskRun", []column{
		{"Run", "id", plain},
		{"For", "scheduledFor", when},
		{"Trigger", "trigger", plain},
		{"Status", "status", state},
		{"Skipped for", "skipReason", plain},
		{"Session", "sessionId", plain},
	}}
}

func viewPreview() view {
	return view{"PreviewedRun", []column{{"Instant", "at", plain}, {"Local time", "localTime", plain}, {"Moved by", "adjustment", plain}}}
}

// scheduleFlags are the flags of a schedule.
type scheduleFlags struct {
	cron, timezone, every, once *string
}

func newScheduleFlags(c *cobra.Command) scheduleFlags {
	f := c.Flags()
	return scheduleFlags{
		cron:     f.String("cron", "", "an `expression` such as \"0 9 * * MON-FRI\" or @daily"),
		timezone: f.String("timezone", "", "where the clocks of --cron are, such as Europe/Berlin; default: UTC"),
		every:    f.String("every", "", "a `span` such as 15m, at least a minute"),
		once:     f.String("at", "", "one `time`: 2026-12-24T18:00:00Z, or a span from now such as 2h"),
	}
}

// schedule returns the schedule that the flags describe; nil if none was given.
func (s scheduleFlags) schedule() (map[string]any, error) {
	given := 0
	for _, text := range []string{*s.cron, *s.every, *s.once} {
		if text != "" {
			given++
		}
	}
	switch {
	case given > 1:
		return nil, usagef("--cron, --every and --at exclude each other")
	case *s.timezone != "" && *s.cron == "":
		return nil, usagef("--timezone goes with --cron")
	case *s.cron != "":
		zone := *s.timezone
		if zone == "" {
			zone = "UTC"
		}
		return map[string]any{"type": "cron", "expression": *s.cron, "timezone": zone}, nil
	case *s.every != "":
		d, err := span(*s.every)
		if err != nil {
			return nil, err
		}
		return map[string]any{"type": "interval", "everySeconds": int64(d / time.Second)}, nil
	case *s.once != "":
		t, err := moment(*s.once, time.Now(), false)
		if err != nil {
			return nil, err
		}
		return map[string]any{"type": "once", "runAt": stamp(t)}, nil
	}
	return nil, nil
}

// taskFlags are the flags of tasks create and update.
type taskFlags struct {
	scheduleFlags
	name, message, mode, session, missed, overlap, start, end, credits *string
	maxRuns, failures                                                  *int
	paused                                                             *bool
	own                                                                func(ctx context.Context, call *client.Client, body map[string]any) error
}

func newTaskFlags(c *cobra.Command) taskFlags {
	f := c.Flags()
	return taskFlags{
		scheduleFlags: newScheduleFlags(c),
		name:          f.String("name", "", "what it is called"),
		message:       f.String("message", "", "what the agent is told; @FILE reads a file"),
		mode:          f.String("mode", "", "once (default), or chat: the agent may ask"),
		session:       f.String("session", "", "new (default): a session for every run; reuse: a turn of one chat"),
		missed:        f.String("missed", "", "run_latest (default), run_all or skip: what becomes of runs that the service missed"),
		overlap:       f.String("overlap", "", "skip (default), queue or allow: what becomes of a run while the one before goes on"),
		start:         f.String("start", "", "no run before this `time`"),
		end:           f.String("end", "", "no run after this `time`"),
		credits:       f.String("max-credits", "", "what a run may cost, in `credits`"),
		maxRuns:       f.Int("max-runs", 0, "finish after so many runs"),
		failures:      f.Int("pause-after-failures", 5, "pause after so many failed runs in a row; 0: never"),
		paused:        f.Bool("paused", false, "make it paused"),
		own:           credentialFlag(c, "each of its sessions has"),
	}
}

// body returns the members that the flags name. An empty text clears the
// member.
func (t taskFlags) body(e *env, c *cobra.Command) (map[string]any, error) {
	body := map[string]any{}
	message, err := e.textOf(*t.message)
	if err != nil {
		return nil, err
	}
	set(body, c, "name", "name", *t.name)
	set(body, c, "message", "message", message)
	set(body, c, "mode", "mode", *t.mode)
	set(body, c, "session", "sessionPolicy", *t.session)
	set(body, c, "missed", "missedRunPolicy", strings.ReplaceAll(*t.missed, "-", "_"))
	set(body, c, "overlap", "overlapPolicy", *t.overlap)
	set(body, c, "max-runs", "maxRuns", *t.maxRuns)
	set(body, c, "pause-after-failures", "pauseAfterFailures", *t.failures)
	set(body, c, "paused", "enabled", !*t.paused)
	for member, text := range map[string]string{"startAt": *t.start, "endAt": *t.end} {
		if text == "" {
			continue
		}
		at, err := moment(text, time.Now(), false)
		if err != nil {
			return nil, err
		}
		body[member] = stamp(at)
	}
	if *t.credits != "" {
		n, err := parseCredits(*t.credits)
		if err != nil {
			return nil, err
		}
		body["maxCreditsMicroPerRun"] = int64(n)
	}
	schedule, err := t.schedule()
	if err != nil {
		return nil, err
	}
	if schedule != nil {
		body["schedule"] = schedule
	}
	return body, nil
}

func (e *env) tasks() *cobra.Command {
	c := group("tasks", "Run an agent by the clock", "Run an agent by the clock: a scheduled task sends its agent a message at set times. AGENT is an id, an external id, or a name that only one has.")
	list := &cobra.Command{
		Use: "list AGENT", Short: "List the tasks of an agent", Args: takes("AGENT"),
		Long: "List the scheduled tasks of an agent, newest first.", Example: "  stoa tasks list support",
	}
	n := limit(list)
	e.onObject(agentCollection(), list, func(ctx context.Context, call *client.Client, o *output, path string, _ []string) error {
		return o.list(viewTasks(), call.All(ctx, path+"/scheduled-tasks", nil, rowsToFetch(*n)), *n, "There are no scheduled tasks.")
	})
	c.AddCommand(
		e.tasksCreate(), list,
		e.onTask("get", "Show a task", "Show a task with its next runs.", func(ctx context.Context, call *client.Client, o *output, path string) error {
			return printObject(viewTask())(ctx, call, o, path, nil)
		}),
		e.tasksUpdate(),
		e.taskAction("pause", "Stop a task for now", "Stop a task for now. Runs that go on are left alone.", viewTask()),
		e.taskAction("resume", "Let a paused task go on", "Let a paused task go on, with its next instant from now.", viewTask()),
		e.taskAction("run", "Run a task now", "Run a task now, also while it is paused, and show the run.", viewRuns()),
		e.tasksRuns(), e.tasksPreview(), e.tasksDelete(),
	)
	return c
}

func (e *env) tasksCreate() *cobra.Command {
	c := &cobra.Command{
		Use: "create AGENT", Short: "Create a task", Args: takes("AGENT"),
		Long:    "Make a scheduled task: a message that the agent is sent by --cron, --every or --at.",
		Example: "  stoa tasks create support --name digest --message \"Sum up yesterday\" --cron \"0 9 * * MON-FRI\" --timezone Europe/Berlin\n  stoa tasks create support --name tidy --message @tidy.md --every 6h --max-credits 0.2",
	}
	t := newTaskFlags(c)
	return e.onObject(agentCollection(), c, func(ctx context.Context, call *client.Client, o *output, path string, _ []string) error {
		body, err := t.body(e, c)
		if err == nil {
			err = t.own(ctx, call, body)
		}
		if err != nil {
			return err
		}
		if body["name"] == nil || body["message"] == nil || body["schedule"] == nil {
			return usagef("a task needs a --name, a --message, and one of --cron, --every and --at")
		}
		raw, err := call.JSON(ctx, http.MethodPost, path+"/scheduled-tasks", nil, body, nil)
		if err != nil {
			return err
		}
		return o.object(viewTask(), raw)
	})
}

// onTask returns a command about one task.
func (e *env) onTask(verb, short, long string, do func(ctx context.Context, call *client.Client, o *output, path string) error) *cobra.Command {
	return e.onObject(agentCollection(), &cobra.Command{
		Use: verb + " AGENT TASK", Short: short, Long: long, Args: takes("AGENT", "TASK"),
		Example: "  stoa tasks " + verb + " support tsk_01k9zqd3m8w5x7y2c4b6n8p0ra",
	}, func(ctx context.Context, call *client.Client, o *output, path string, args []string) error {
		return do(ctx, call, o, path+"/scheduled-tasks/"+url.PathEscape(args[0]))
	})
}

// taskAction returns a command that posts to one task.
func (e *env) taskAction(verb, short, long string, v view) *cobra.Command {
	return e.onTask(verb, short, long, func(ctx context.Context, call *client.Client, o *output, path string) error {
		raw, err := call.JSON(ctx, http.MethodPost, path+"/"+verb, nil, nil, nil)
		if err != nil {
			return err
		}
		return o.object(v, raw)
	})
}

func (e *env) tasksUpdate() *cobra.Command {
	c := &cobra.Command{
		Use: "update AGENT TASK", Short: "Change a task", Args: takes("AGENT", "TASK"),
		Long:    "Change what the flags name; an empty text clears.",
		Example: "  stoa tasks update support tsk_01k9zqd3m8w5x7y2c4b6n8p0ra --every 1h",
	}
	t := newTaskFlags(c)
	return e.onObject(agentCollection(), c, func(ctx context.Context, call *client.Client, o *output, path string, args []string) error {
		body, err := t.body(e, c)
		if err == nil {
			err = t.own(ctx, call, body)
		}
		if err != nil {
			return err
		}
		return e.patch(ctx, call, o, path+"/scheduled-tasks/"+url.PathEscape(args[0]), body, viewTask())
	})
}

func (e *env) tasksRuns() *cobra.Command {
	c := &cobra.Command{
		Use: "runs AGENT TASK", Short: "List the runs of a task", Args: takes("AGENT", "TASK"),
		Long: "List the runs of a task, newest first, skipped ones with their reason.", Example: "  stoa tasks runs support tsk_01k9zqd3m8w5x7y2c4b6n8p0ra",
	}
	n := limit(c)
	return e.onObject(agentCollection(), c, func(ctx context.Context, call *client.Client, o *output, path string, args []string) error {
		return o.list(viewRuns(), call.All(ctx, path+"/scheduled-tasks/"+url.PathEscape(args[0])+"/runs", nil, rowsToFetch(*n)), *n, "It has not run yet.")
	})
}

func (e *env) tasksPreview() *cobra.Command {
	c := &cobra.Command{
		Use: "preview AGENT", Short: "Show when a schedule would run", Args: takes("AGENT"),
		Long:    "Show when a schedule would run; nothing is stored. Worth a look around the days when clocks are changed.",
		Example: "  stoa tasks preview support --cron \"30 2 * * *\" --timezone America/New_York --count 10",
	}
	s := newScheduleFlags(c)
	n := c.Flags().Int("count", 5, "how many instants, up to 100")
	return e.onObject(agentCollection(), c, func(ctx context.Context, call *client.Client, o *output, path string, _ []string) error {
		schedule, err := s.schedule()
		if err != nil {
			return err
		}
		if schedule == nil {
			return usagef("give it one of --cron, --every and --at")
		}
		var found struct {
			Runs []jsonx.Value `json:"runs"`
		}
		if _, err := call.JSON(ctx, http.MethodPost, path+"/scheduled-tasks/preview", nil, map[string]any{"schedule": schedule, "count": *n}, &found); err != nil {
			return err
		}
		return o.list(viewPreview(), sequence(found.Runs), 0, "It would never run.")
	})
}

func (e *env) tasksDelete() *cobra.Command {
	c := &cobra.Command{
		Use: "delete AGENT TASK...", Short: "Delete tasks", Args: takes("AGENT", "TASK..."),
		Long: "Delete tasks with the records of their runs. Sessions stay.", Example: "  stoa tasks delete support tsk_01k9zqd3m8w5x7y2c4b6n8p0ra --yes",
	}
	return e.deleteItemsCommand(c, "/scheduled-tasks/", "Delete", "the task", "tasks", "with the records of its runs")
}
