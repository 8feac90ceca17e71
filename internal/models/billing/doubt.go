package billing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// A charge is in doubt when the answer to its commit is lost. It is written again under its id
// as soon as the store commits again or, if this node is dead, looked up. Until then the caller
// learns neither that the reply is complete nor that it has failed, because a failed reply is
// free. See docs/decisions/0043-resolve-a-charge-in-doubt-before-answering.md.

const (
	doubtPause = 100 * time.Millisecond // between attempts to resolve charges in doubt
	lookTries  = 3                      // attempts to look up charges in doubt when the node ends
)

// ErrUnknown is in the chain of the error of a charge that may be stored, because the node ended
// before the database could be queried. The caller must not conclude that the call was free.
var ErrUnknown = errors.New("billing: it is unknown whether the call was charged")

// resolve writes the charges in doubt again. A charge that its first commit has stored is
// found by its id; any other is charged now. If that fails they remain in doubt.
func (l *Ledger) resolve() {
	b := &batch{l: l, entries: l.doubtful, doubt: true}
	if len(b.entries) == 0 {
		return
	}
	l.doubtful = nil
	b.answer(b.commit())
	if left := len(b.entries) - len(l.doubtful); left > 0 {
		l.log.LogAttrs(context.Background(), slog.LevelInfo, "charges whose commit was cut off are resolved", slog.Int("resolved", left))
	}
}

// giveUp answers the charges in doubt when the ledger ends: it writes them once more or, if
// this node is dead, looks them up.
func (l *Ledger) giveUp() {
	for try := 0; try < lookTries && len(l.doubtful) > 0; try++ {
		if try > 0 {
			time.Sleep(doubtPause)
		}
		if l.resolve(); len(l.doubtful) > 0 {
			l.lookUp()
		}
	}
	for _, e := range l.doubtful {
		l.log.LogAttrs(e.ctx, slog.LevelError, "it is unknown whether a call was charged", slog.String("charge", e.receipt.ID), slog.String("account", e.h.a.id))
		e.err = stoa.Errorf(stoa.CodeOverloaded, "The service ended before it was known whether this call was charged. Check its receipt.").
			After(time.Second).Because(fmt.Errorf("%w: %s", ErrUnknown, e.receipt.ID))
		l.complete(e, time.Time{})
	}
	l.doubtful = nil
}

// lookUp answers the charges in doubt of a dead node from the rows, which are final, because no
// transaction of such a node can commit any more.
func (l *Ledger) lookUp() {
	ctx := context.Background()
	stored := map[string]store.Receipt{}
	alive := true
	err := l.st.Read(ctx, func(tx *store.Tx) (err error) {
		clear(stored)
		if alive, err = tx.Operations().NodeAlive(ctx, l.st.Node()); err != nil || alive {
			return err
		}
		for _, e := range l.doubtful {
			r, found, err := tx.Books().ChargeByID(ctx, e.receipt.ID)
			if err != nil {
				return err
			}
			if found && r.AccountID == e.receipt.AccountID {
				stored[r.ID] = r
			}
		}
		return nil
	})
	if err != nil || alive {
		return
	}
	for _, e := range l.doubtful {
		e.inserted, e.err = false, nil
		if r, found := stored[e.receipt.ID]; found {
			e.receipt = r
		} else {
			e.err = store.ErrLost
		}
		l.complete(e, time.Time{})
	}
	l.doubtful = nil
}
