package upstream

import (
	"context"
	"errors"
	"time"

	"stoa/internal/stoa"
	"stoa/internal/wire"
)

// TryTime is how long [Pool.Try] takes at most.
const TryTime = 20 * time.Second

// A Tried says what came of a call that [Pool.Try] made. Its texts hold nothing that a
// provider wrote.
type Tried struct {
	Attempts   int           // requests that were sent
	Failed     stoa.Code     // empty: the reply came to its end
	Status     int           // of HTTP, of a refusal; 0: none came
	FirstToken time.Duration // 0: none came
	Duration   time.Duration
}

// Try makes the smallest call that every provider takes, on one route and for an
// account, and waits for its end. It is a call like others: it is retried, and an open
// circuit refuses it. An error means that ctx has ended.
func (p *Pool) Try(ctx context.Context, account string, model string, r stoa.Route) (t Tried, err error) {
	began := time.Now()
	within, cancel := context.WithTimeout(ctx, TryTime)
	defer cancel()
	var trail stoa.Trail
	call := stoa.Call{
		Messages: []stoa.Message{stoa.TextMessage(stoa.RoleUser, "Say OK.")}, MaxOutputTokens: 16, // fewer are refused by some
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
