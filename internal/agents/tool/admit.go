package tool

import (
	"sync"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// admit counts a trial call until done is called, within the limits of the connection, which
// sessions share, and of its account.
func (t *Tools) admit(c store.Connection) (done func(), err error) {
	leave, err := t.enter(c.AccountID)
	if err != nil {
		return nil, err
	}
	g, bounds := &t.gates, []bound{{c.ID, int(c.Limits.MaxConcurrent)}}
	if ready, _ := g.enter(bounds); !ready {
		leave()
		return nil, stoa.Errorf(stoa.CodeRateLimit, "The connection allows %d concurrent calls (limits.maxConcurrent). Wait until one has ended.", c.Limits.MaxConcurrent)
	}
	done = sync.OnceFunc(func() { g.leave(bounds); leave() })
	if _, ok := g.rates.Allow("connection "+c.ID, int(c.Limits.CallsPerMinute), time.Now()); !ok {
		done()
		return nil, stoa.Errorf(stoa.CodeRateLimit, "The connection allows %d calls per minute (limits.callsPerMinute). Wait a little.", c.Limits.CallsPerMinute)
	}
	return done, nil
}
