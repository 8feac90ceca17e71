package app

import (
	"context"

	"golang.org/x/sync/errgroup"

	"stoa/internal/agent"
	"stoa/internal/gateway"
	"stoa/internal/scheduler"
	"stoa/internal/session"
)

// buildSessions creates what keeps, runs and schedules sessions. Nothing runs
// yet.
func (h *house) buildSessions(calls *gateway.Gateway) {
	l := h.opts.Config.Limits
	shared := h.opts.Config.Database != ""
	h.sessions = session.New(session.Config{
		Store: h.store, Logger: h.log,
		Limits: session.Limits{
			Queued: l.QueuedSessions, QueueTime: l.QueueWait, QueuedMessages: l.QueuedMessages,
			Steps: l.TurnSteps, TurnTime: l.TurnTime, InputTime: l.InputWait, MessageChars: l.MessageCharacters,
		},
	})
	h.worker = agent.New(agent.Config{Sessions: h.sessions, Gateway: calls, Drives: h.drives, Plans: h.plan, Shared: shared, Logger: h.log})
	h.scheduler = scheduler.New(scheduler.Config{
		Sessions: h.sessions, Shared: shared, PerAgent: l.SchedulesPerAgent, Interval: l.ScheduleInterval, Logger: h.log,
	})
}

// running runs a part of the service as part of the group. The function it
// returns stops it, and waits for that: the scheduler before the worker, so that
// nothing new is queued for a worker that stops.
func running(ctx context.Context, group *errgroup.Group, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	group.Go(func() error {
		defer close(ended)
		return run(ctx)
	})
	return func() {
		cancel()
		<-ended
	}
}
