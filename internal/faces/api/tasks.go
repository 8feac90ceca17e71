package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

const (
	defaultCatchUp    = 3600
	defaultPauseAfter = 5
	defaultPreview    = 5
	upcomingRuns      = 5
)

func (s *Sessions) createScheduledTask(ctx context.Context, tx *store.Tx, in rest.Request[byID, contract.CreateScheduledTask]) (rest.Reply[contract.ScheduledTask], error) {
	var reply rest.Reply[contract.ScheduledTask]
	b := in.Body
	when, err := parseSchedule(b.Schedule)
	if err != nil {
		return reply, err
	}
	task := stoa.ScheduledTask{
		AgentID: in.Params.ID, Name: b.Name, Message: b.Message, Schedule: when, Mode: stoa.SessionMode(orZero(b.Mode)),
		StartAt: instant(b.StartAt), EndAt: instant(b.EndAt), MaxRuns: orZero(b.MaxRuns), Enabled: valueOr(b.Enabled, true),
		SessionPolicy: valueOr(b.SessionPolicy, stoa.SessionNew), MissedPolicy: valueOr(b.MissedRunPolicy, stoa.MissedRunLatest),
		CatchUpWindow: time.Duration(valueOr(b.CatchUpWindowSeconds, defaultCatchUp)) * time.Second,
		OverlapPolicy: valueOr(b.OverlapPolicy, stoa.OverlapSkip), PauseAfter: valueOr(b.PauseAfterFailures, defaultPauseAfter),
		MaxCredits: stoa.Credits(orZero(b.MaxCreditsMicroPerRun)),
	}
	if err := s.checkTask(task); err != nil {
		return reply, err
	}
	made, err := s.Scheduler.Create(ctx, tx, in.Caller, task)
	if err == nil {
		err = keepCredentials(ctx, tx, in.Caller, made.ID, "", b.Credentials)
	}
	reply = s.taskReply(made)
	reply.Status, reply.Location = http.StatusCreated, agentPath(in.Params.ID)+"/scheduled-tasks/"+made.ID
	return reply, err
}

func (s *Sessions) taskReply(t stoa.ScheduledTask) rest.Reply[contract.ScheduledTask] {
	return rest.Reply[contract.ScheduledTask]{ETag: taskETag(t), Body: s.contractTask(t)}
}

func (s *Sessions) checkTask(t stoa.ScheduledTask) error {
	return checkLengths(
		lengthLimit{"name", t.Name, s.Limits.NameCharacters},
		lengthLimit{"message", t.Message, s.Limits.MessageCharacters},
	)
}

func instant(n nullable.Nullable[contract.Time]) time.Time {
	return orZero(n).Time().Truncate(time.Millisecond)
}

func parseSchedule(b contract.Schedule) (stoa.Schedule, error) {
	out := stoa.Schedule{
		Type: b.Type, Expression: orZero(b.Expression), Timezone: orZero(b.Timezone),
		Every: time.Duration(orZero(b.EverySeconds)) * time.Second, RunAt: instant(b.RunAt),
	}
	for _, m := range []struct {
		name, of string
		given    bool
	}{
		{"expression", stoa.ScheduleCron, given(b.Expression)},
		{"timezone", stoa.ScheduleCron, given(b.Timezone)},
		{"everySeconds", stoa.ScheduleInterval, given(b.EverySeconds)},
		{"runAt", stoa.ScheduleOnce, given(b.RunAt)},
	} {
		switch {
		case m.of == b.Type && !m.given:
			return out, stoa.Errorf(stoa.CodeMissingParameter, "A schedule of type %q requires the member %q.", b.Type, m.name).At("schedule." + m.name)
		case m.of != b.Type && m.given:
			return out, stoa.Errorf(stoa.CodeInvalidValue, "%q is only allowed in a schedule of type %q; this one has the type %q.", m.name, m.of, b.Type).At("schedule." + m.name)
		}
	}
	return out, nil
}

func given[T any](n nullable.Nullable[T]) bool { return n.IsSpecified() && !n.IsNull() }

func (s *Sessions) previewSchedule(ctx context.Context, in rest.Request[byID, contract.PreviewSchedule]) (rest.Reply[contract.SchedulePreview], error) {
	b := in.Body
	if _, err := store.Read(ctx, s.Store, func(tx *store.Tx) (stoa.Agent, error) {
		return tx.Setup().Agent(ctx, in.Caller.Account.ID, in.Params.ID)
	}); err != nil {
		return rest.Reply[contract.SchedulePreview]{}, err
	}
	when, err := parseSchedule(b.Schedule)
	if err != nil {
		return rest.Reply[contract.SchedulePreview]{}, err
	}
	list, err := s.Scheduler.Preview(stoa.ScheduledTask{
		Schedule: when, StartAt: instant(b.StartAt), EndAt: instant(b.EndAt), MaxRuns: orZero(b.MaxRuns),
	}, valueOr(b.Count, defaultPreview))
	out := contract.SchedulePreview{Runs: []contract.PreviewedRun{}}
	for _, r := range list {
		out.Runs = append(out.Runs, contract.PreviewedRun{At: contract.Time(r.At), LocalTime: r.Local.Format(time.RFC3339), Adjustment: nullIfZero(r.Shift)})
	}
	return rest.Reply[contract.SchedulePreview]{Body: out}, err
}

func (s *Sessions) listScheduledTasks(ctx context.Context, in rest.Request[idAnd[contract.ListScheduledTasksParams], rest.None]) (rest.Reply[rest.Page[contract.ScheduledTask]], error) {
	accountID, q := in.Caller.Account.ID, in.Params.Query
	p := rest.NewPager(q.Limit, q.Cursor, q.Order, "scheduled tasks", accountID, in.Params.ID, q.Q)
	return rest.ReadPageTo(ctx, s.Store, p, func(tx *store.Tx) ([]stoa.ScheduledTask, store.Cursor, error) {
		if _, err := tx.Setup().Agent(ctx, accountID, in.Params.ID); err != nil {
			return nil, store.Cursor{}, err
		}
		return tx.Work().Tasks(ctx, accountID, store.TaskFilter{AgentID: in.Params.ID, Text: q.Q}, p.Page)
	}, s.contractTask)
}

func (s *Sessions) listSpaceScheduledTasks(ctx context.Context, in rest.Request[idAnd[contract.ListSpaceScheduledTasksParams], rest.None]) (rest.Reply[rest.Page[contract.ScheduledTask]], error) {
	accountID, q := in.Caller.Account.ID, in.Params.Query
	p := rest.NewPager(q.Limit, q.Cursor, q.Order, "space scheduled tasks", accountID, in.Params.ID, q.Q)
	return rest.ReadPageTo(ctx, s.Store, p, func(tx *store.Tx) ([]stoa.ScheduledTask, store.Cursor, error) {
		if _, err := tx.Setup().Space(ctx, accountID, in.Params.ID); err != nil {
			return nil, store.Cursor{}, err
		}
		return tx.Work().Tasks(ctx, accountID, store.TaskFilter{SpaceID: in.Params.ID, Text: q.Q}, p.Page)
	}, s.contractTask)
}

func task(ctx context.Context, tx *store.Tx, accountID, agentID, id string) (stoa.ScheduledTask, error) {
	if _, err := tx.Setup().Agent(ctx, accountID, agentID); err != nil {
		return stoa.ScheduledTask{}, err
	}
	return tx.Work().Task(ctx, accountID, agentID, id)
}

func (s *Sessions) getScheduledTask(ctx context.Context, in rest.Request[taskAnd[contract.GetScheduledTaskParams], rest.None]) (rest.Reply[contract.ScheduledTask], error) {
	t, err := store.Read(ctx, s.Store, func(tx *store.Tx) (stoa.ScheduledTask, error) {
		return task(ctx, tx, in.Caller.Account.ID, in.Params.ID, in.Params.TaskID)
	})
	if err != nil {
		return rest.Reply[contract.ScheduledTask]{}, err
	}
	out := s.contractTask(t)
	out.Credentials, err = s.ownCredentials(ctx, in.Caller, t.ID)
	return unlessCurrent(in.Params.Query.IfNoneMatch, taskTag(t), out), err
}

// taskTag identifies the state of a task, including its last run.
func taskTag(t stoa.ScheduledTask) string {
	run := int64(0)
	if t.LastRun != nil {
		run = t.LastRun.Revision
	}
	return fmt.Sprintf("r%d.%d", t.Revision, run)
}

func taskETag(t stoa.ScheduledTask) string { return `"` + taskTag(t) + `"` }

func ifCurrentTask(header string, t stoa.ScheduledTask) error {
	want := matching(header)
	if want == nil || slices.Contains(want, "*") || slices.Contains(want, taskTag(t)) {
		return nil
	}
	return stoa.Errorf(stoa.CodePrecondition, "It has changed since: its ETag is now %s. Read it again before you change it.", taskETag(t)).At("If-Match")
}

func (s *Sessions) updateScheduledTask(ctx context.Context, tx *store.Tx, in rest.Request[taskAnd[contract.UpdateScheduledTaskParams], contract.UpdateScheduledTask]) (rest.Reply[contract.ScheduledTask], error) {
	t, err := s.Scheduler.Edit(ctx, tx, in.Caller.Account.ID, in.Params.ID, in.Params.TaskID,
		func(t stoa.ScheduledTask) error { return ifCurrentTask(in.Params.Query.IfMatch, t) },
		func(t *stoa.ScheduledTask) error {
			if err := s.patchTask(t, &in.Body); err != nil {
				return err
			}
			return keepCredentials(ctx, tx, in.Caller, t.ID, "", in.Body.Credentials)
		})
	return s.taskReply(t), err
}

func (s *Sessions) patchTask(t *stoa.ScheduledTask, b *contract.UpdateScheduledTask) error {
	if b.Name != "" { // because the contract rejects null and empty texts
		t.Name = b.Name
	}
	if b.Message != "" {
		t.Message = b.Message
	}
	if b.Schedule.Type != "" {
		var err error
		if t.Schedule, err = parseSchedule(b.Schedule); err != nil {
			return err
		}
	}
	patch(&t.Mode, b.Mode, func(m string) stoa.SessionMode { return stoa.SessionMode(m) })
	set(&t.StartAt, b.StartAt, instant(b.StartAt))
	set(&t.EndAt, b.EndAt, instant(b.EndAt))
	set(&t.MaxRuns, b.MaxRuns, orZero(b.MaxRuns))
	set(&t.Enabled, b.Enabled, valueOr(b.Enabled, true))
	set(&t.SessionPolicy, b.SessionPolicy, valueOr(b.SessionPolicy, stoa.SessionNew))
	set(&t.MissedPolicy, b.MissedRunPolicy, valueOr(b.MissedRunPolicy, stoa.MissedRunLatest))
	set(&t.CatchUpWindow, b.CatchUpWindowSeconds, time.Duration(valueOr(b.CatchUpWindowSeconds, defaultCatchUp))*time.Second)
	set(&t.OverlapPolicy, b.OverlapPolicy, valueOr(b.OverlapPolicy, stoa.OverlapSkip))
	set(&t.PauseAfter, b.PauseAfterFailures, valueOr(b.PauseAfterFailures, defaultPauseAfter))
	set(&t.MaxCredits, b.MaxCreditsMicroPerRun, stoa.Credits(orZero(b.MaxCreditsMicroPerRun)))
	return s.checkTask(*t)
}

func set[T, U any](into *U, n nullable.Nullable[T], value U) {
	if n.IsSpecified() {
		*into = value
	}
}

func (s *Sessions) deleteScheduledTask(ctx context.Context, tx *store.Tx, in rest.Request[taskAnd[contract.DeleteScheduledTaskParams], rest.None]) (rest.Reply[rest.None], error) {
	accountID, q := in.Caller.Account.ID, in.Params.Query
	if q.IfMatch != "" {
		t, err := tx.Work().LockTask(ctx, accountID, in.Params.ID, in.Params.TaskID)
		if err == nil {
			err = ifCurrentTask(q.IfMatch, t)
		}
		if err != nil {
			return rest.NoContent(), err
		}
	}
	return rest.NoContent(), s.Scheduler.Delete(ctx, tx, accountID, in.Params.ID, in.Params.TaskID)
}

func (s *Sessions) pauseScheduledTask(ctx context.Context, tx *store.Tx, in rest.Request[byTaskID, rest.None]) (rest.Reply[contract.ScheduledTask], error) {
	t, err := s.Scheduler.Pause(ctx, tx, in.Caller.Account.ID, in.Params.ID, in.Params.TaskID)
	return s.taskReply(t), err
}

func (s *Sessions) resumeScheduledTask(ctx context.Context, tx *store.Tx, in rest.Request[byTaskID, rest.None]) (rest.Reply[contract.ScheduledTask], error) {
	t, err := s.Scheduler.Resume(ctx, tx, in.Caller.Account.ID, in.Params.ID, in.Params.TaskID)
	return s.taskReply(t), err
}

// beforeRun checks the credits for a run before the transaction; see beforeSession.
func (s *Sessions) beforeRun(ctx context.Context, in rest.Request[byTaskID, rest.None]) (credits, err error) {
	t, err := store.Read(ctx, s.Store, func(tx *store.Tx) (stoa.ScheduledTask, error) {
		return task(ctx, tx, in.Caller.Account.ID, in.Params.ID, in.Params.TaskID)
	})
	if err != nil {
		return nil, err
	}
	return s.Worker.CheckCredits(ctx, in.Caller, s.Scheduler.RequestOf(t)), nil
}

func (s *Sessions) runScheduledTask(ctx context.Context, tx *store.Tx, in rest.Request[byTaskID, rest.None], credits error) (rest.Reply[contract.TaskRun], error) {
	if credits != nil {
		return rest.Reply[contract.TaskRun]{}, credits
	}
	run, err := s.Scheduler.RunNow(ctx, tx, in.Caller.Account.ID, in.Params.ID, in.Params.TaskID)
	return rest.Reply[contract.TaskRun]{
		Status: http.StatusAccepted, Location: agentPath(in.Params.ID) + "/sessions/" + run.SessionID, Body: contractRun(run),
	}, err
}

func (s *Sessions) listTaskRuns(ctx context.Context, in rest.Request[taskAnd[contract.ListTaskRunsParams], rest.None]) (rest.Reply[rest.Page[contract.TaskRun]], error) {
	accountID, q := in.Caller.Account.ID, in.Params.Query
	p := rest.NewPager(q.Limit, q.Cursor, q.Order, "task runs", accountID, in.Params.ID, in.Params.TaskID)
	return rest.ReadPage(ctx, s.Store, p, func(tx *store.Tx) ([]stoa.TaskRun, bool, error) {
		if _, err := task(ctx, tx, accountID, in.Params.ID, in.Params.TaskID); err != nil {
			return nil, false, err
		}
		return tx.Work().TaskRuns(ctx, accountID, in.Params.TaskID, p.Page)
	}, listedRun, func(r stoa.TaskRun) store.Cursor { return store.Cursor{At: r.ScheduledFor, ID: r.ID} })
}

func (s *Sessions) contractTask(t stoa.ScheduledTask) contract.ScheduledTask {
	out := contract.ScheduledTask{
		ID: t.ID, Object: "scheduled_task", AgentID: t.AgentID, Name: t.Name, Message: t.Message, Mode: string(t.Mode), Schedule: contractSchedule(t.Schedule),
		StartAt: nullIfNever(t.StartAt), EndAt: nullIfNever(t.EndAt), MaxRuns: nullIfZero(t.MaxRuns), Enabled: t.Enabled, Status: "active",
		PauseReason: nullIfZero(t.PauseReason), SessionPolicy: t.SessionPolicy, MissedRunPolicy: t.MissedPolicy,
		CatchUpWindowSeconds: int64(t.CatchUpWindow / time.Second), OverlapPolicy: t.OverlapPolicy, PauseAfterFailures: t.PauseAfter,
		MaxCreditsMicroPerRun: nullIfZero(int64(t.MaxCredits)), SessionID: nullIfZero(t.SessionID),
		NextRunAt: nullIfNever(t.NextAt), UpcomingRunsAt: []contract.Time{}, LastRun: nullIfNil(t.LastRun, contractRun),
		Counters: contract.TaskCounters{
			Started: t.Counts.Started, Completed: t.Counts.Completed, Failed: t.Counts.Failed, Cancelled: t.Counts.Cancelled,
			Skipped: t.Counts.Skipped, ConsecutiveFailures: t.Failures,
		},
		CreatedAt: contract.Time(t.CreatedAt), UpdatedAt: contract.Time(t.UpdatedAt),
	}
	switch {
	case t.Finished():
		out.Status = "finished"
	case !t.Enabled:
		out.Status = "paused"
	}
	for _, at := range s.Scheduler.Upcoming(t, upcomingRuns) {
		out.UpcomingRunsAt = append(out.UpcomingRunsAt, contract.Time(at))
	}
	return out
}

func contractSchedule(s stoa.Schedule) contract.Schedule {
	out := contract.Schedule{Type: s.Type}
	switch s.Type {
	case stoa.ScheduleCron:
		out.Expression, out.Timezone = nullable.NewNullableWithValue(s.Expression), nullable.NewNullableWithValue(s.Timezone)
	case stoa.ScheduleInterval:
		out.EverySeconds = nullable.NewNullableWithValue(int64(s.Every / time.Second))
	default:
		out.RunAt = nullable.NewNullableWithValue(contract.Time(s.RunAt))
	}
	return out
}

func contractRun(r stoa.TaskRun) contract.TaskRun {
	return contract.TaskRun{
		ID: r.ID, Object: "task_run", TaskID: r.TaskID, ScheduledFor: contract.Time(r.ScheduledFor), Trigger: r.Trigger, Status: r.Status,
		SkipReason: nullIfZero(r.SkipReason), WaitingFor: nullIfZero(string(r.Waiting)), Instants: r.Instants, ThroughScheduledFor: nullIfNever(r.Through),
		SessionID: nullIfZero(r.SessionID), Turn: nullIfZero(r.Turn), DelaySeconds: nullUnless(r.SessionID != "", int64(r.Delay/time.Second)),
		CreatedAt: contract.Time(r.CreatedAt), StartedAt: nullIfNever(r.StartedAt), FinishedAt: nullIfNever(r.FinishedAt),
	}
}

func listedRun(r stoa.TaskRun) contract.TaskRun {
	out := contractRun(r)
	out.Error, out.CreditsMicro = contractFailure(r.Failure), nullUnless(r.SessionID != "", int64(r.Spent))
	return out
}
