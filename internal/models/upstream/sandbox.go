package upstream

import (
	"context"
	"errors"

	"stoa/internal/base/stoa"
	"stoa/internal/models/sandbox"
	"stoa/internal/models/wire"
)

// sandbox sends the attempt to the built-in model, which is treated like a vendor: it accepts
// with its first event, timeouts apply, and failures are classified. But its failures are
// neither retried nor counted against the route, because a prompt orders them, which would
// repeat with it, and all callers share the route.
func (a *attempt) sandbox(ctx context.Context, w *watch) *wire.Failure {
	return a.yieldAll(func(yield func(*stoa.Event, error) bool) {
		defer w.stop()
		accepted := false
		w.start(firstByte, a.provider.timeouts.FirstByte)
		for ev, err := range sandbox.Reply(ctx, a.call, sandbox.Options{Model: a.model, Route: a.spec}) {
			w.stop()
			if f, ok := errors.AsType[*sandbox.Failure](err); ok {
				err = &wire.Failure{Err: f.Err, Caller: f.Caller, Ours: f.Ours, RetryAfter: f.RetryAfter, Status: f.Status, Detail: "as ordered by the prompt"}
			}
			if err == nil && !accepted {
				accepted = true
				if !a.emit(&stoa.Event{Kind: stoa.Started, Provider: a.provider.Name}) {
					return
				}
			}
			if !yield(ev, err) {
				return
			}
			w.start(idle, a.provider.timeouts.Idle)
		}
	})
}
