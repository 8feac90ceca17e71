package app

import (
	"context"

	"golang.org/x/sync/errgroup"

	"stoa/internal/runner"
)

// newScheduler makes what starts sessions by the clock. Nothing runs yet.
func (h *house) newScheduler() *runner.Scheduler {
	l := h.opts.Config.Limits
	h.scheduler = runner.NewScheduler(h.runner, runner.ScheduleConfig{PerAgent: l.SchedulesPerAgent, Interval: l.ScheduleInterval})
	return h.scheduler
}

// startScheduler runs it as part of the group. The function it returns stops it,
// and waits for that: nothing new is queued for a runner that stops.
func (h *house) startScheduler(ctx context.Context, group *errgroup.Group) (stop func()) {
	running, stopped := context.WithCancel(ctx)
	ended := make(chan struct{})
	group.Go(func() error {
		defer close(ended)
		return h.scheduler.Run(running)
	})
	return func() {
		stopped()
		<-ended
	}
}
