package tool

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"stoa/internal/agents/mcp"
	"stoa/internal/agents/remote"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// The events of a connection, as in package webhook.
const (
	eventReview        = "connection.review_needed"
	eventAuthorization = "connection.needs_authorization"
)

func (t *Tools) emit(ctx context.Context, tx *store.Tx, kind string, c store.Connection) error {
	if t.Emit == nil {
		return nil
	}
	return t.Emit(ctx, tx, kind, c)
}

const (
	sweepEvery    = time.Minute
	refreshEvery  = time.Hour
	refreshJitter = 10 * time.Minute // maximum deviation in both directions
	refreshAgain  = 10 * time.Minute // minimum interval for a connection that no call needs
	refreshLate   = 24 * time.Hour   // maximum, because a server chooses its cache settings
	refreshPage   = 40               // connections per sweep
	refreshAtOnce = 4                // one of an account, so that an account with slow servers leaves room for others
)

// Run refreshes the connections whose tools agents use, each about once an hour, until ctx
// ends. The nodes of one database share the work. A sweep does not wait for the slow servers
// of an earlier one. Run also ends the sessions at servers that are no longer used, and all of
// them at its end.
func (t *Tools) Run(ctx context.Context) error {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	var sweeps sync.WaitGroup
	defer sweeps.Wait()
	for {
		select {
		case <-ctx.Done():
			t.kept.drop(func(keptFor, time.Time) bool { return true })
			return nil
		case <-ticker.C:
		}
		if err := t.EndKept(ctx, time.Now()); err != nil && ctx.Err() == nil {
			t.Logger.WarnContext(ctx, "unused sessions at servers were not ended", "error", err)
		}
		sweeps.Go(func() {
			if err := t.Sweep(ctx); err != nil && ctx.Err() == nil {
				t.Logger.WarnContext(ctx, "connections were not refreshed", "error", err)
			}
		})
	}
}

// doubt schedules an early refresh of a connection if a call shows that its catalog is out of
// date: the server does not recognize the tool or its arguments, or uses another version of
// the protocol. It also records the scopes that the call lacks.
func (t *Tools) doubt(ctx context.Context, c store.Connection, spoken string, failure error) {
	t.stepUp(ctx, c, failure)
	failed, _ := errors.AsType[*remote.Error](failure)
	if (failed == nil || failed.Code != mcp.InvalidParams) && (spoken == "" || spoken == c.Protocol) {
		return
	}
	err := t.Store.Write(context.WithoutCancel(ctx), func(tx *store.Tx) error { return tx.Setup().RefreshSoon(ctx, c, refreshAgain) })
	if err != nil {
		t.logger().WarnContext(ctx, "a connection will not be refreshed soon", "account", c.AccountID, "connection", c.ID, "error", err)
	}
}

// Sweep refreshes the connections that are due, as [Tools.Run] does each minute. The failure
// of a server is stored with its connection.
func (t *Tools) Sweep(ctx context.Context) error {
	due, err := store.Write(ctx, t.Store, func(tx *store.Tx) ([]store.Connection, error) {
		return tx.Setup().ClaimRefreshes(ctx, refreshPage, func() time.Time {
			return tx.Now.Add(refreshEvery - refreshJitter + rand.N(2*refreshJitter))
		})
	})
	if err != nil {
		return err
	}
	wanted, err := store.Read(ctx, t.Store, func(tx *store.Tx) (wanted []store.Connection, err error) {
		for _, c := range due {
			if tx.Now.Sub(c.CheckedAt) < refreshAgain {
				continue // because another refresh has just begun
			}
			agents, err := tx.Setup().AgentsUsing(ctx, c, 1)
			if err != nil {
				return nil, err
			}
			if len(agents) > 0 {
				wanted = append(wanted, c)
			}
		}
		return wanted, nil
	})
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	defer group.Wait()
	for _, c := range wanted {
		group.Go(func() {
			release, err := t.turns.Acquire(ctx, c.AccountID, refreshAtOnce, 1)
			if err != nil {
				return
			}
			defer release()
			_, err = t.Refresh(ctx, c.AccountID, c.ID)
			if err != nil && ctx.Err() == nil {
				t.Logger.InfoContext(ctx, "a connection was not refreshed", "account", c.AccountID, "connection", c.ID, "code", stoa.CodeOf(err), "error", err)
			}
		})
	}
	return nil
}
