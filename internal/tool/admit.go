package tool

import (
	"time"

	"stoa/internal/stoa"
	"stoa/internal/store"
)

// A use counts the calls of a connection on this node.
type use struct {
	now    int64       // that are going on
	begun  []time.Time // within the last minute, in order
	forget time.Time   // when nothing is counted any more
}

// minute is over which calls are counted.
const minute = time.Minute

// admit counts a call of a tool of a connection until done is called, within the limits
// of the connection and of its account.
func (t *Tools) admit(c store.Connection) (done func(), err error) {
	leave, err := t.enter(c.AccountID)
	if err != nil {
		return nil, err
	}
	if err := t.count(c, time.Now()); err != nil {
		leave()
		return nil, err
	}
	return func() {
		leave()
		t.mu.Lock()
		defer t.mu.Unlock()
		t.used[c.ID].now--
	}, nil
}

func (t *Tools) count(c store.Connection, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, u := range t.used { // at most those of the last minute
		if u.now == 0 && !now.Before(u.forget) {
			delete(t.used, id)
		}
	}
	if t.used == nil {
		t.used = map[string]*use{}
	}
	u := t.used[c.ID]
	if u == nil {
		u = &use{}
		t.used[c.ID] = u
	}
	for len(u.begun) > 0 && now.Sub(u.begun[0]) >= minute {
		u.begun = u.begun[1:]
	}
	switch {
	case u.now >= c.Limits.MaxConcurrent:
		return stoa.Errorf(stoa.CodeRateLimit, "The connection takes %d calls at a time (limits.maxConcurrent). Wait until one has ended.", c.Limits.MaxConcurrent)
	case int64(len(u.begun)) >= c.Limits.CallsPerMinute:
		return stoa.Errorf(stoa.CodeRateLimit, "The connection takes %d calls in a minute (limits.callsPerMinute). Wait a little.", c.Limits.CallsPerMinute)
	}
	u.now++
	u.begun, u.forget = append(u.begun, now), now.Add(minute)
	return nil
}
