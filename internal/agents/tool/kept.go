package tool

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"stoa/internal/agents/remote"
	"stoa/internal/base/store"
)

// Limits of the sessions at servers that outlive a turn.
const (
	KeptIdle = 30 * time.Minute // without a call
	MaxKept  = 200              // of this process; the one that was unused for the longest time is ended
)

// A keeper keeps the sessions at servers between the turns of an agent's session, for
// connections that require it. Each belongs to one session of an agent, because servers keep a
// user's state in it, and is used by one turn at a time.
type keeper struct {
	mu   sync.Mutex
	all  map[keptFor]keptAt
	used map[keptFor]chan struct{} // closed at the end of the turn that uses the session
}

type keptFor struct{ account, session, connection string }

type keptAt struct {
	opened
	since time.Time
}

// handover limits the wait for the end of the previous turn, which has already been recorded.
const handover = 5 * time.Second

// reserve reserves a key for a turn until [keeper.release]; ok is false if another turn does
// not release it. It returns the session that is kept for the key, which the turn then owns,
// if there is one; one for another endpoint is ended.
func (k *keeper) reserve(ctx context.Context, key keptFor, endpoint string) (o *opened, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, handover)
	defer cancel()
	k.mu.Lock()
	for k.used[key] != nil {
		used := k.used[key]
		k.mu.Unlock()
		select {
		case <-used:
		case <-ctx.Done():
			return nil, false
		}
		k.mu.Lock()
	}
	if k.used == nil {
		k.used, k.all = map[keptFor]chan struct{}{}, map[keptFor]keptAt{}
	}
	k.used[key] = make(chan struct{})
	at, there := k.all[key]
	delete(k.all, key)
	k.mu.Unlock()
	switch {
	case !there:
		return nil, true
	case at.endpoint != endpoint:
		end([]opened{at.opened})
		return nil, true
	}
	return &at.opened, true
}

// release ends the reservation of a key, and keeps the session if the server has it.
func (k *keeper) release(key keptFor, o opened, now time.Time) {
	k.mu.Lock()
	close(k.used[key])
	delete(k.used, key)
	if o.id == "" {
		k.mu.Unlock()
		end([]opened{o})
		return
	}
	var over []opened
	drop := func(key keptFor) {
		if at, ok := k.all[key]; ok {
			over = append(over, at.opened)
			delete(k.all, key)
		}
	}
	if len(k.all) >= MaxKept {
		drop(slices.MinFunc(slices.Collect(maps.Keys(k.all)), func(a, b keptFor) int { return k.all[a].since.Compare(k.all[b].since) }))
	}
	k.all[key] = keptAt{o, now}
	k.mu.Unlock()
	end(over)
}

func (k *keeper) drop(which func(key keptFor, since time.Time) bool) {
	var over []opened
	k.mu.Lock()
	for key, at := range k.all {
		if which(key, at.since) {
			over = append(over, at.opened)
			delete(k.all, key)
		}
	}
	k.mu.Unlock()
	end(over)
}

func end(all []opened) {
	var ending sync.WaitGroup
	for _, o := range all {
		if o.end != nil {
			ending.Go(o.end)
		}
	}
	ending.Wait()
}

// EndKept ends the sessions at servers that were not used for [KeptIdle], and those of
// sessions of agents that are gone, as [Tools.Run] does each minute.
func (t *Tools) EndKept(ctx context.Context, now time.Time) error {
	t.kept.mu.Lock()
	keys := slices.Collect(maps.Keys(t.kept.all))
	t.kept.mu.Unlock()
	if len(keys) == 0 {
		return nil
	}
	gone := map[keptFor]bool{}
	err := t.Store.Read(ctx, func(tx *store.Tx) error {
		clear(gone)
		for _, key := range keys {
			there, err := tx.Work().HasSession(ctx, key.account, key.session)
			if err != nil {
				return err
			}
			gone[key] = !there
		}
		return nil
	})
	if err != nil {
		return err
	}
	t.kept.drop(func(key keptFor, since time.Time) bool { return gone[key] || now.Sub(since) >= KeptIdle })
	return nil
}

// newSession is the beginning of a result if the server has lost what earlier calls of the
// session had opened.
const newSession = "(The server's session is new: what earlier calls had opened there, such as pages, transactions or variables, is gone.)\n"

// noteLoss returns [newSession] if the result is the first one from a new session at the
// server although earlier calls of the agent's session had another; otherwise empty.
func (t *Turn) noteLoss(ctx context.Context, c store.Connection, call string, server remote.Server, o *opened) string {
	with, ok := inner(server).(interface{ SessionID() string })
	if !ok || t.session == "" {
		return ""
	}
	id := with.SessionID()
	t.mu.Lock()
	was := o.id
	o.id = id
	t.mu.Unlock()
	if id == "" || id == was {
		return ""
	}
	lost := was != ""
	if !lost {
		err := t.tools.Store.Read(ctx, func(tx *store.Tx) (err error) {
			lost, err = tx.Work().CalledBefore(ctx, c.AccountID, t.session, c.ID, call)
			return err
		})
		if err != nil {
			t.tools.logger().WarnContext(ctx, "whether a session at a server is new could not be read", "connection", c.ID, "error", err)
		}
	}
	if lost {
		return newSession
	}
	return ""
}
