package api

import (
	"time"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
)

func (s *Sessions) contractTask(t stoa.ScheduledTask) contract.ScheduledTask {
	out := contract.ScheduledTask{
		ID: t.ID, Object: "scheduled_task", AgentID: t.AgentID, Name: t.Name, Message: t.Message, Mode: string(t.Mode), Schedule: contractSchedule(t.Schedule),
		StartAt: nullIfNever(t.StartAt), EndAt: nullIfNever(t.EndAt), MaxRuns: nullIfZero(t.MaxRuns), Enabled: t.Enabled, Status: "active",
		PauseReason: nullIfZero(t.PauseReason), SessionPolicy: t.SessionPolicy, MissedRunPolicy: t.MissedPolicy,
		CatchUpWindowSeconds: int64(t.CatchUpWindow / time.Second), OverlapPolicy: t.OverlapPolicy, PauseAfterFailures: t.PauseAfter,
		MaxCreditsMicroPerRun: nullIfZero(int64(t.MaxCredits)), SessionID: nullIfZero(t.SessionID),
		NextRunAt: nullIfNever(t.NextAt), UpcomingRunsAt: []contract.Time{}, LastRun: nullable.NewNullNullable[contract.TaskRun](),
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
	if t.LastRun != nil {
		out.LastRun = nullable.NewNullableWithValue(contractRun(*t.LastRun))
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
	out := contract.TaskRun{
		ID: r.ID, Object: "task_run", TaskID: r.TaskID, ScheduledFor: contract.Time(r.ScheduledFor), Trigger: r.Trigger, Status: r.Status,
		SkipReason: nullIfZero(r.SkipReason), WaitingFor: nullIfZero(string(r.Waiting)), Instants: r.Instants, ThroughScheduledFor: nullIfNever(r.Through),
		SessionID: nullIfZero(r.SessionID), Turn: nullIfZero(r.Turn), DelaySeconds: nullable.NewNullNullable[int64](),
		CreatedAt: contract.Time(r.CreatedAt), StartedAt: nullIfNever(r.StartedAt), FinishedAt: nullIfNever(r.FinishedAt),
	}
	if r.SessionID != "" {
		out.DelaySeconds = nullable.NewNullableWithValue(int64(r.Delay / time.Second))
	}
	return out
}

func listedRun(r stoa.TaskRun) contract.TaskRun {
	out := contractRun(r)
	out.Error, out.CreditsMicro = contractFailure(r.Failure), nullable.NewNullNullable[int64]()
	if r.SessionID != "" {
		out.CreditsMicro = nullable.NewNullableWithValue(int64(r.Spent))
	}
	return out
}
