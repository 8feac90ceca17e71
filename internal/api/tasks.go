package api

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/contract"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

// What a task has that names none.
const (
	defaultCatchUp    = 3600
	defaultPauseAfter = 5
	defaultPreview    = 5
	upcomingRuns      = 5
)

// CreateScheduledTask serves POST /api/v1/api-agents/{id}/scheduled-tasks.
func (s *Server) CreateScheduledTask(ctx context.Context, in contract.CreateScheduledTaskRequestObject) (contract.CreateScheduledTaskResponseObject, error) {
	b := in.Body
	when, err := schedule(b.Schedule)
	if err != nil {
		return nil, err
	}
	task := stoa.ScheduledTask{
		AgentID: in.ID, Name: b.Name, Message: b.Message, Schedule: when, Mode: stoa.SessionMode(orZero(b.Mode)),
		StartAt: instant(b.StartAt), EndAt: instant(b.EndAt), MaxRuns: orZero(b.MaxRuns), Enabled: valueOr(b.Enabled, true),
		SessionPolicy: valueOr(b.SessionPolicy, stoa.SessionNew), MissedPolicy: valueOr(b.MissedRunPolicy, stoa.MissedRunLatest),
		CatchUpWindow: time.Duration(valueOr(b.CatchUpWindowSeconds, defaultCatchUp)) * time.Second,
		OverlapPolicy: valueOr(b.OverlapPolicy, stoa.OverlapSkip), PauseAfter: valueOr(b.PauseAfterFailures, defaultPauseAfter),
		MaxCredits: stoa.Credits(orZero(b.MaxCreditsMicroPerRun)),
	}
	if err := s.checkTask(task); err != nil {
		return nil, err
	}
	return makeOnce(ctx, s, false, contract.CreateScheduledTaskResponseObject.VisitCreateScheduledTaskResponse, func(tx *store.Tx) (contract.CreateScheduledTaskResponseObject, error) {
		made, err := s.Scheduler.Create(ctx, tx, caller(ctx), task)
		return contract.CreateScheduledTask201JSONResponse{
			Headers: contract.CreateScheduledTask201ResponseHeaders{Location: taskPath(in.ID, made.ID), ETag: taskETag(made)},
			Body:    s.contractTask(made),
		}, err
	})
}

func taskPath(agentID, id string) string { return agentPath(agentID) + "/scheduled-tasks/" + id }

func (s *Server) checkTask(t stoa.ScheduledTask) error {
	return checkLengths(
		lengthLimit{"name", t.Name, s.Limits.NameCharacters},
		lengthLimit{"message", t.Message, s.Limits.MessageCharacters},
	)
}

// instant is an optional time, as exact as it is shown again.
func instant(n nullable.Nullable[contract.Time]) time.Time {
	return orZero(n).Time().Truncate(time.Millisecond)
}

// schedule reads a schedule whose type needs some members and takes no others.
func schedule(b contract.Schedule) (stoa.Schedule, error) {
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
			return out, stoa.Errorf(stoa.CodeMissingParameter, "A schedule of type %q needs the member %q.", b.Type, m.name).At("schedule." + m.name)
		case m.of != b.Type && m.given:
			return out, stoa.Errorf(stoa.CodeInvalidValue, "The member %q belongs to a schedule of type %q, and this one is of type %q.", m.name, m.of, b.Type).At("schedule." + m.name)
		}
	}
	return out, nil
}

// given reports whether an optional member has a value.
func given[T any](n nullable.Nullable[T]) bool { return n.IsSpecified() && !n.IsNull() }

// PreviewSchedule serves POST …/scheduled-tasks/preview.
func (s *Server) PreviewSchedule(ctx context.Context, in contract.PreviewScheduleRequestObject) (contract.PreviewScheduleResponseObject, error) {
	b := in.Body
	err := s.Store.Read(ctx, func(tx *store.Tx) error {
		_, err := tx.Agent(ctx, caller(ctx).Account.ID, in.ID)
		return err
	})
	if err != nil {
		return nil, err
	}
	when, err := schedule(b.Schedule)
	if err != nil {
		return nil, err
	}
	list, err := s.Scheduler.Preview(stoa.ScheduledTask{
		Schedule: when, StartAt: instant(b.StartAt), EndAt: instant(b.EndAt), MaxRuns: orZero(b.MaxRuns),
	}, valueOr(b.Count, defaultPreview))
	out := contract.PreviewSchedule200JSONResponse{Runs: []contract.PreviewedRun{}}
	for _, r := range list {
		out.Runs = append(out.Runs, contract.PreviewedRun{At: contract.Time(r.At), LocalTime: r.Local.Format(time.RFC3339), Adjustment: unlessZero(r.Shift)})
	}
	return out, err
}

// ListScheduledTasks serves GET /api/v1/api-agents/{id}/scheduled-tasks.
func (s *Server) ListScheduledTasks(ctx context.Context, in contract.ListScheduledTasksRequestObject) (contract.ListScheduledTasksResponseObject, error) {
	accountID, q := caller(ctx).Account.ID, in.Params
	p, err := newPager(q.Limit, q.Cursor, q.Order, "scheduled tasks", accountID, in.ID)
	if err != nil {
		return nil, err
	}
	var list contract.ScheduledTaskList
	err = s.Store.Read(ctx, func(tx *store.Tx) error {
		if _, err := tx.Agent(ctx, accountID, in.ID); err != nil {
			return err
		}
		list, err = s.taskList(ctx, tx, accountID, store.TaskFilter{AgentID: in.ID}, p)
		return err
	})
	return contract.ListScheduledTasks200JSONResponse(list), err
}

// ListSpaceScheduledTasks serves GET /api/v1/spaces/{id}/scheduled-tasks.
func (s *Server) ListSpaceScheduledTasks(ctx context.Context, in contract.ListSpaceScheduledTasksRequestObject) (contract.ListSpaceScheduledTasksResponseObject, error) {
	accountID, q := caller(ctx).Account.ID, in.Params
	p, err := newPager(q.Limit, q.Cursor, q.Order, "space scheduled tasks", accountID, in.ID)
	if err != nil {
		return nil, err
	}
	var list contract.ScheduledTaskList
	err = s.Store.Read(ctx, func(tx *store.Tx) error {
		if _, err := tx.Space(ctx, accountID, in.ID); err != nil {
			return err
		}
		list, err = s.taskList(ctx, tx, accountID, store.TaskFilter{SpaceID: in.ID}, p)
		return err
	})
	return contract.ListSpaceScheduledTasks200JSONResponse(list), err
}

func (s *Server) taskList(ctx context.Context, tx *store.Tx, accountID string, f store.TaskFilter, p pager) (contract.ScheduledTaskList, error) {
	out := contract.ScheduledTaskList{Data: []contract.ScheduledTask{}, NextCursor: noCursor()}
	list, more, err := tx.Tasks(ctx, accountID, f, p.page)
	for _, t := range list {
		out.Data = append(out.Data, s.contractTask(t))
		out.NextCursor = p.next(more, t.CreatedAt, t.ID)
	}
	out.HasMore = more
	return out, err
}

// task is a task of an agent that is there.
func task(ctx context.Context, tx *store.Tx, agentID, id string) (stoa.ScheduledTask, error) {
	accountID := caller(ctx).Account.ID
	if _, err := tx.Agent(ctx, accountID, agentID); err != nil {
		return stoa.ScheduledTask{}, err
	}
	return tx.Task(ctx, accountID, agentID, id)
}

// GetScheduledTask serves GET …/scheduled-tasks/{taskId}.
func (s *Server) GetScheduledTask(ctx context.Context, in contract.GetScheduledTaskRequestObject) (contract.GetScheduledTaskResponseObject, error) {
	var t stoa.ScheduledTask
	err := s.Store.Read(ctx, func(tx *store.Tx) (err error) {
		t, err = task(ctx, tx, in.ID, in.TaskID)
		return err
	})
	if err != nil {
		return nil, err
	}
	if hasTag(in.Params.IfNoneMatch, taskTag(t)) {
		return contract.GetScheduledTask304Response{Headers: contract.GetScheduledTask304ResponseHeaders{ETag: taskETag(t)}}, nil
	}
	return contract.GetScheduledTask200JSONResponse{Headers: contract.GetScheduledTask200ResponseHeaders{ETag: taskETag(t)}, Body: s.contractTask(t)}, nil
}

// taskTag names a state of a task, of which its last run is a part.
func taskTag(t stoa.ScheduledTask) string {
	run := int64(0)
	if t.LastRun != nil {
		run = t.LastRun.Revision
	}
	return fmt.Sprintf("r%d.%d", t.Revision, run)
}

func taskETag(t stoa.ScheduledTask) string { return `"` + taskTag(t) + `"` }

// ifCurrentTask holds an If-Match against the task that is to be changed.
func ifCurrentTask(header string, t stoa.ScheduledTask) error {
	want := matching(header)
	if want == nil || slices.Contains(want, "*") || slices.Contains(want, taskTag(t)) {
		return nil
	}
	return stoa.Errorf(stoa.CodePrecondition, "It was changed since: its ETag is %s now. Read it again before you change it.", taskETag(t)).At("If-Match")
}

// UpdateScheduledTask serves PATCH …/scheduled-tasks/{taskId}.
func (s *Server) UpdateScheduledTask(ctx context.Context, in contract.UpdateScheduledTaskRequestObject) (contract.UpdateScheduledTaskResponseObject, error) {
	var t stoa.ScheduledTask
	err := s.Store.Write(ctx, func(tx *store.Tx) (err error) {
		t, err = s.Scheduler.Edit(ctx, tx, caller(ctx).Account.ID, in.ID, in.TaskID,
			func(t stoa.ScheduledTask) error { return ifCurrentTask(in.Params.IfMatch, t) },
			func(t *stoa.ScheduledTask) error { return s.patchTask(t, in.Body) })
		return err
	})
	if err != nil {
		return nil, err
	}
	return contract.UpdateScheduledTask200JSONResponse{Headers: contract.UpdateScheduledTask200ResponseHeaders{ETag: taskETag(t)}, Body: s.contractTask(t)}, nil
}

func (s *Server) patchTask(t *stoa.ScheduledTask, b *contract.UpdateScheduledTask) error {
	if b.Name != "" { // null and empty texts are refused by the contract
		t.Name = b.Name
	}
	if b.Message != "" {
		t.Message = b.Message
	}
	if b.Schedule.Type != "" {
		var err error
		if t.Schedule, err = schedule(b.Schedule); err != nil {
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

// set changes what a PATCH names to a value that is known.
func set[T, U any](into *U, n nullable.Nullable[T], value U) {
	if n.IsSpecified() {
		*into = value
	}
}

// DeleteScheduledTask serves DELETE …/scheduled-tasks/{taskId}.
func (s *Server) DeleteScheduledTask(ctx context.Context, in contract.DeleteScheduledTaskRequestObject) (contract.DeleteScheduledTaskResponseObject, error) {
	accountID := caller(ctx).Account.ID
	err := s.Store.Write(ctx, func(tx *store.Tx) error {
		if in.Params.IfMatch != "" {
			t, err := tx.LockTask(ctx, accountID, in.ID, in.TaskID)
			if stoa.CodeOf(err) == stoa.CodeTaskNotFound {
				return nil
			}
			if err == nil {
				err = ifCurrentTask(in.Params.IfMatch, t)
			}
			if err != nil {
				return err
			}
		}
		return s.Scheduler.Delete(ctx, tx, accountID, in.ID, in.TaskID)
	})
	return contract.DeleteScheduledTask204Response{}, err
}

// moveTask lets a verb of the scheduler change the caller's task.
func (s *Server) moveTask(ctx context.Context, agentID, id string, verb func(context.Context, *store.Tx, string, string, string) (stoa.ScheduledTask, error)) (t stoa.ScheduledTask, err error) {
	err = s.Store.Write(ctx, func(tx *store.Tx) (err error) {
		t, err = verb(ctx, tx, caller(ctx).Account.ID, agentID, id)
		return err
	})
	return t, err
}

// PauseScheduledTask serves POST …/scheduled-tasks/{taskId}/pause.
func (s *Server) PauseScheduledTask(ctx context.Context, in contract.PauseScheduledTaskRequestObject) (contract.PauseScheduledTaskResponseObject, error) {
	t, err := s.moveTask(ctx, in.ID, in.TaskID, s.Scheduler.Pause)
	if err != nil {
		return nil, err
	}
	return contract.PauseScheduledTask200JSONResponse{Headers: contract.PauseScheduledTask200ResponseHeaders{ETag: taskETag(t)}, Body: s.contractTask(t)}, nil
}

// ResumeScheduledTask serves POST …/scheduled-tasks/{taskId}/resume.
func (s *Server) ResumeScheduledTask(ctx context.Context, in contract.ResumeScheduledTaskRequestObject) (contract.ResumeScheduledTaskResponseObject, error) {
	t, err := s.moveTask(ctx, in.ID, in.TaskID, s.Scheduler.Resume)
	if err != nil {
		return nil, err
	}
	return contract.ResumeScheduledTask200JSONResponse{Headers: contract.ResumeScheduledTask200ResponseHeaders{ETag: taskETag(t)}, Body: s.contractTask(t)}, nil
}

// RunScheduledTask serves POST …/scheduled-tasks/{taskId}/run.
func (s *Server) RunScheduledTask(ctx context.Context, in contract.RunScheduledTaskRequestObject) (contract.RunScheduledTaskResponseObject, error) {
	var t stoa.ScheduledTask
	err := s.Store.Read(ctx, func(tx *store.Tx) (err error) {
		t, err = task(ctx, tx, in.ID, in.TaskID)
		return err
	})
	if err != nil {
		return nil, err
	}
	// Credits are looked at outside of the transaction. What is wrong is told
	// inside, where it is known whether the request was answered before.
	broke := s.Worker.CheckCredits(ctx, caller(ctx), s.Scheduler.RequestOf(t))
	return makeOnce(ctx, s, false, contract.RunScheduledTaskResponseObject.VisitRunScheduledTaskResponse, func(tx *store.Tx) (contract.RunScheduledTaskResponseObject, error) {
		if broke != nil {
			return nil, broke
		}
		run, err := s.Scheduler.RunNow(ctx, tx, caller(ctx).Account.ID, in.ID, in.TaskID)
		return contract.RunScheduledTask202JSONResponse{
			Headers: contract.RunScheduledTask202ResponseHeaders{Location: agentPath(in.ID) + "/sessions/" + run.SessionID}, Body: contractRun(run),
		}, err
	})
}

// ListTaskRuns serves GET …/scheduled-tasks/{taskId}/runs.
func (s *Server) ListTaskRuns(ctx context.Context, in contract.ListTaskRunsRequestObject) (contract.ListTaskRunsResponseObject, error) {
	accountID, q := caller(ctx).Account.ID, in.Params
	p, err := newPager(q.Limit, q.Cursor, q.Order, "task runs", accountID, in.ID, in.TaskID)
	if err != nil {
		return nil, err
	}
	out := contract.ListTaskRuns200JSONResponse{Data: []contract.TaskRun{}, NextCursor: noCursor()}
	err = s.Store.Read(ctx, func(tx *store.Tx) error {
		if _, err := task(ctx, tx, in.ID, in.TaskID); err != nil {
			return err
		}
		list, more, err := tx.TaskRuns(ctx, accountID, in.TaskID, p.page)
		for _, r := range list {
			out.Data = append(out.Data, contractRun(r))
			out.NextCursor = p.next(more, r.ScheduledFor, r.ID)
		}
		out.HasMore = more
		return err
	})
	return out, err
}
