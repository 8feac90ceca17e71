package upstream

import (
	"context"
	"errors"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/models/wire"
)

// TryTime is the timeout of [Pool.Try].
const TryTime = 20 * time.Second

// A Tried is the result of [Pool.Try]. Its texts contain nothing written by a provider.
type Tried struct {
	Attempts   int           // number of requests sent
	Failed     stoa.Code     // empty if the reply was complete
	Status     int           // HTTP status of a refusal; 0 if none exists
	FirstToken time.Duration // 0 if none exists
	Duration   time.Duration
}

// Try makes the smallest call that every provider accepts, on one route and for an account,
// and waits for its end. It is treated like other calls: it is retried, and an open circuit
// refuses it. An error means that ctx has ended.
func (p *Pool) Try(ctx context.Context, account string, model string, r stoa.Route) (t Tried, err error) {
	began := time.Now()
	within, cancel := context.WithTimeout(ctx, TryTime)
	defer cancel()
	var trail stoa.Trail
	call := stoa.Call{
		Messages: []stoa.Message{stoa.TextMessage(stoa.RoleUser, "Say OK.")}, MaxOutputTokens: 16, // because some providers refuse a lower limit
		Account: account, Trail: &trail,
	}
	for ev, failed := range p.Stream(within, stoa.Model{ID: model, Routes: []stoa.Route{r}}, call) {
		if failed != nil {
			err = failed
			break
		}
		if ev.Kind == stoa.Delta && t.FirstToken == 0 {
			t.FirstToken = time.Since(began)
		}
	}
	t.Attempts, t.Duration = trail.Attempts, time.Since(began)
	if ctx.Err() != nil {
		return t, ctx.Err()
	}
	if fail, ok := errors.AsType[*wire.Failure](err); ok {
		t.Failed, t.Status = fail.Err.Code, fail.Status
	} else if err != nil {
		t.Failed = stoa.CodeUpstreamTimeout
	}
	return t, nil
}
