package app

import (
	"context"

	"golang.org/x/sync/errgroup"

	"stoa/internal/gateway"
	"stoa/internal/runner"
)

// newRunner makes the runner of agents' sessions. Nothing runs yet.
func (h *house) newRunner(calls *gateway.Gateway) *runner.Runner {
	l := h.opts.Config.Limits
	return runner.New(runner.Config{
		Store: h.store, Gateway: calls, Drives: h.drives, Plans: h.plan, Logger: h.log,
		Shared: h.opts.Config.Database != "",
		Limits: runner.Limits{
			Queued: l.QueuedSessions, QueueTime: l.QueueWait, QueuedMessages: l.QueuedMessages,
			Steps: l.TurnSteps, TurnTime: l.TurnTime, InputTime: l.InputWait, MessageChars: l.MessageCharacters,
		},
	})
}

// startRunner runs sessions as part of the group. The function it returns hands
// those that run back to the queue, and waits for that.
func (h *house) startRunner(ctx context.Context, group *errgroup.Group) (stop func()) {
	running, stopped := context.WithCancel(ctx)
	ended := make(chan struct{})
	group.Go(func() error {
		defer close(ended)
		return h.runner.Run(running)
	})
	return func() {
		stopped()
		<-ended
	}
}
