package billing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"stoa/internal/stoa"
	"stoa/internal/store"
)

// A charge is in doubt when the answer to its commit is lost. Its caller is told
// neither that the reply is complete nor that it has failed, and so is free, before it
// is known which of the two is true: the charge is written once more under its id as
// soon as the store commits again, or, where this node is dead, looked for. See
// docs/decisions/0043-resolve-a-charge-in-doubt-before-answering.md.

const (
	// doubtPause is the time between two attempts to resolve charges in doubt.
	doubtPause = 100 * time.Millisecond
	// lookTries is how often a node that ends looks for its charges in doubt.
	lookTries = 3
)

// ErrUnknown is in the chain of the error of a charge that may be stored: the node
// ended before the database could be asked. Its caller must not be told that the call
// was free; a process that is killed at that moment tells nothing either.
var ErrUnknown = errors.New("billing: it is not known whether the call was charged")

// resolve writes the charges in doubt once more. What their first commit has stored
// is found by its id; what it has not is charged now. When that fails they remain in
// doubt.
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

// giveUp answers the charges in doubt when the ledger ends: once more by writing them,
// and where this node is dead by what is stored.
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
		l.log.LogAttrs(e.ctx, slog.LevelError, "it is not known whether a call was charged", slog.String("charge", e.receipt.ID), slog.String("account", e.h.a.id))
		e.err = stoa.Errorf(stoa.CodeOverloaded, "The service has ended before it was known whether this call was charged. Its receipt says.").
			After(time.Second).Because(fmt.Errorf("%w: %s", ErrUnknown, e.receipt.ID))
		l.complete(e, time.Time{})
	}
	l.doubtful = nil
}

// lookUp answers the charges in doubt of a dead node by what is stored: no transaction
// of such a node can still commit.
func (l *Ledger) lookUp() {
	ctx := context.Background()
	stored := map[string]store.Receipt{}
	alive := true
	err := l.st.Read(ctx, func(tx *store.Tx) (err error) {
		clear(stored)
		if alive, err = tx.NodeAlive(ctx, l.st.Node()); err != nil || alive {
			return err
		}
		for _, e := range l.doubtful {
			r, found, err := tx.ChargeByID(ctx, e.receipt.ID)
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
