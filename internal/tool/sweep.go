package tool

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"stoa/internal/mcp"
	"stoa/internal/remote"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

// The events of a connection, as package webhook has them.
const (
	eventReview        = "connection.review_needed"
	eventAuthorization = "connection.needs_authorization"
)

// emit passes on an event of a connection.
func (t *Tools) emit(ctx context.Context, tx *store.Tx, kind string, c store.Connection) error {
	if t.Emit == nil {
		return nil
	}
	return t.Emit(ctx, tx, kind, c)
}

const (
	sweepEvery    = time.Minute
	refreshEvery  = time.Hour
	refreshJitter = 10 * time.Minute // up to that much more or less
	refreshAgain  = 10 * time.Minute // between two of a connection that nobody asks for
	refreshLate   = 24 * time.Hour   // whatever the server says of its catalog
	refreshPage   = 40               // connections that one sweep takes up
	refreshAtOnce = 4
)

// Run refreshes the connections that agents have tools of, each about once an hour, until
// ctx ends. The nodes of one database share the work.
func (t *Tools) Run(ctx context.Context) error {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := t.Sweep(ctx); err != nil && ctx.Err() == nil {
			t.Logger.WarnContext(ctx, "connections were not refreshed", "error", err)
		}
	}
}

// doubt has a connection refreshed soon where a call shows that what was read at the last
// refresh is no longer so: the server does not know the tool or its arguments, or speaks
// another version of the protocol.
func (t *Tools) doubt(ctx context.Context, c store.Connection, spoken string, failure error) {
	failed, _ := errors.AsType[*remote.Error](failure)
	if (failed == nil || failed.Code != mcp.InvalidParams) && (spoken == "" || spoken == c.Protocol) {
		return
	}
	err := t.Store.Write(context.WithoutCancel(ctx), func(tx *store.Tx) error { return tx.RefreshSoon(ctx, c, refreshAgain) })
	if err != nil {
		t.logger().WarnContext(ctx, "a connection will not be refreshed soon", "account", c.AccountID, "connection", c.ID, "error", err)
	}
}

// Sweep refreshes the connections that are due now, as [Tools.Run] does each minute. A
// server that fails is written down with its connection.
func (t *Tools) Sweep(ctx context.Context) error {
	var due []store.Connection
	err := t.Store.Write(ctx, func(tx *store.Tx) (err error) {
		due, err = tx.ClaimRefreshes(ctx, refreshPage, func() time.Time {
			return tx.Now.Add(refreshEvery - refreshJitter + rand.N(2*refreshJitter))
		})
		return err
	})
	if err != nil {
		return err
	}
	var wanted []store.Connection
	err = t.Store.Read(ctx, func(tx *store.Tx) error {
		wanted = nil
		for _, c := range due {
			if tx.Now.Sub(c.CheckedAt) < refreshAgain {
				continue // somebody has asked just now
			}
			agents, err := tx.AgentsUsing(ctx, c, 1)
			if err != nil {
				return err
			}
			if len(agents) > 0 {
				wanted = append(wanted, c)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	defer group.Wait()
	free := make(chan struct{}, refreshAtOnce)
	for _, c := range wanted {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		group.Go(func() {
			defer func() { <-free }()
			_, err := t.Refresh(ctx, c.AccountID, c.ID)
			if err != nil && ctx.Err() == nil {
				t.Logger.InfoContext(ctx, "a connection was not refreshed", "account", c.AccountID, "connection", c.ID, "code", stoa.CodeOf(err), "error", err)
			}
		})
	}
	return nil
}
