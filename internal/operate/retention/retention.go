// Package retention removes data that is only kept for a time: stored replies of idempotency
// keys, expired sessions of the console, the request log, deliveries to webhooks, and, if the
// operator sets a time, receipts, the audit log, sessions, and the events and tool calls of
// sessions.
//
// Before receipts are removed, the statements of their months are stored. The books balance before
// and after, because the sums of receipts are kept as totals. The data of deleted objects is removed by
// their own package (drive for files, session for the rows of an agent), because only that can determine when
// it is no longer used. Start at [Purger.Run].
package retention

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"stoa/internal/base/config"
	"stoa/internal/base/store"
	"stoa/internal/models/billing"
)

const (
	purgeEvery = time.Hour
	purgeBatch = 200                   // rows in a transaction, so that no charge waits long for its commit
	purgePause = 20 * time.Millisecond // between two transactions
	purgePage  = 100                   // accounts or sessions in a read
	unsureKept = 90 * 24 * time.Hour   // minimum for tool calls with an unknown outcome
)

// A Purger removes data past its retention, at the start and every hour.
type Purger struct {
	store *store.Store
	keep  func() config.Retention
	logs  func() (kept time.Duration, most int)
	ended func(ctx context.Context, before time.Time) (int64, error)
	log   *slog.Logger
	every time.Duration
	pause time.Duration
}

// New returns a purger. It calls keep and requests (the retention of the request log and its maximum number of
// rows of an account) before each pass, because they can change; removeEnded removes the sessions that have
// ended before a time.
func New(st *store.Store, keep func() config.Retention, requests func() (time.Duration, int), removeEnded func(context.Context, time.Time) (int64, error), log *slog.Logger) *Purger {
	return &Purger{store: st, keep: keep, logs: requests, ended: removeEnded, log: log, every: purgeEvery, pause: purgePause}
}

// Run purges until ctx ends. After a failure it tries again an hour later.
func (p *Purger) Run(ctx context.Context) error {
	again := time.NewTicker(p.every)
	defer again.Stop()
	for {
		if err := p.sweep(ctx); err != nil && ctx.Err() == nil {
			p.log.Error("old rows could not be removed; the next pass tries again", "error", err)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (p *Purger) sweep(ctx context.Context) error {
	if err := billing.FillHours(ctx, p.store); err != nil {
		return fmt.Errorf("sums of hours: %w", err)
	}
	keep, now := p.keep(), time.Now()
	replies, err := p.drain(ctx, func(tx *store.Tx) (int64, error) { return tx.PurgeReplies(ctx, purgeBatch) })
	if err != nil {
		return fmt.Errorf("replies: %w", err)
	}
	if err := billing.EndStatements(ctx, p.store, now); err != nil {
		return err
	}
	var receipts, events, calls, sessions, audit int64
	if keep.Receipts > 0 {
		before, err := p.receiptsBefore(ctx, now.Add(-keep.Receipts))
		if err != nil {
			return fmt.Errorf("receipts: %w", err)
		}
		receipts, err = p.each(ctx,
			func(tx *store.Tx, after string) ([]string, error) {
				return tx.AccountsWithReceipts(ctx, before, after, purgePage)
			},
			func(tx *store.Tx, account string) (int64, error) {
				return tx.PurgeReceipts(ctx, account, before, purgeBatch)
			})
		if err != nil {
			return fmt.Errorf("receipts: %w", err)
		}
		if _, err := p.drain(ctx, func(tx *store.Tx) (int64, error) { return tx.Books().PurgeVendorFailures(ctx, before, purgeBatch) }); err != nil {
			return fmt.Errorf("failed requests: %w", err)
		}
	}
	if keep.Sessions > 0 {
		if sessions, err = p.ended(ctx, now.Add(-keep.Sessions)); err != nil {
			return fmt.Errorf("sessions: %w", err)
		}
	}
	if keep.Events > 0 {
		before := now.Add(-keep.Events)
		events, err = p.each(ctx,
			func(tx *store.Tx, after string) ([]string, error) {
				return tx.SessionsWithEvents(ctx, before, after, purgePage)
			},
			func(tx *store.Tx, session string) (int64, error) {
				return tx.PurgeEvents(ctx, session, before, purgeBatch)
			})
		if err != nil {
			return fmt.Errorf("events: %w", err)
		}
		unsure := now.Add(-max(keep.Events, unsureKept))
		calls, err = p.each(ctx,
			func(tx *store.Tx, after string) ([]string, error) {
				return tx.Work().AccountsWithToolCalls(ctx, before, after, purgePage)
			},
			func(tx *store.Tx, account string) (int64, error) {
				return tx.Work().PurgeToolCalls(ctx, account, before, unsure, purgeBatch)
			})
		if err != nil {
			return fmt.Errorf("tool calls: %w", err)
		}
	}
	if keep.Audit > 0 {
		before := now.Add(-keep.Audit)
		audit, err = p.each(ctx,
			func(tx *store.Tx, after string) ([]string, error) {
				return tx.People().AccountsWithAudit(ctx, before, after, purgePage)
			},
			func(tx *store.Tx, account string) (int64, error) {
				return tx.People().PurgeAudit(ctx, account, before, purgeBatch)
			})
		if err != nil {
			return fmt.Errorf("audit log: %w", err)
		}
	}
	if _, err := p.drain(ctx, func(tx *store.Tx) (int64, error) { return tx.People().PurgeConsoleSessions(ctx, purgeBatch) }); err != nil {
		return fmt.Errorf("sessions of the console: %w", err)
	}
	if _, err := p.drain(ctx, func(tx *store.Tx) (int64, error) { return tx.Work().PurgeUploads(ctx, purgeBatch) }); err != nil {
		return fmt.Errorf("uploads: %w", err)
	}
	if _, err := p.drain(ctx, func(tx *store.Tx) (int64, error) { return tx.People().PurgeInvitations(ctx, purgeBatch) }); err != nil {
		return fmt.Errorf("invitations: %w", err)
	}
	if _, err := p.drain(ctx, func(tx *store.Tx) (int64, error) { return tx.People().PurgeLinkMails(ctx, purgeBatch) }); err != nil {
		return fmt.Errorf("mails with links: %w", err)
	}
	if _, err := p.drain(ctx, func(tx *store.Tx) (int64, error) { return tx.Work().PurgeHookEvents(ctx, purgeBatch) }); err != nil {
		return fmt.Errorf("events of hooks: %w", err)
	}
	secrets, err := p.drain(ctx, func(tx *store.Tx) (int64, error) { return tx.Setup().PurgeSecrets(ctx, purgeBatch) })
	if err != nil {
		return fmt.Errorf("deleted secrets: %w", err)
	}
	err = p.store.Write(ctx, func(tx *store.Tx) error {
		_, err := tx.Books().PurgeChargeDays(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("sums of days: %w", err)
	}
	if _, err := p.drain(ctx, func(tx *store.Tx) (int64, error) { return tx.Books().PurgeBudgetWindows(ctx, purgeBatch) }); err != nil {
		return fmt.Errorf("windows of budgets: %w", err)
	}
	_, err = p.each(ctx,
		func(tx *store.Tx, after string) ([]string, error) {
			return tx.Books().AccountsWithDeletedBudgets(ctx, after, purgePage)
		},
		func(tx *store.Tx, account string) (int64, error) {
			return tx.Books().PurgeDeletedBudgets(ctx, account, purgeBatch)
		})
	if err != nil {
		return fmt.Errorf("windows of deleted budgets: %w", err)
	}
	hooks, err := p.each(ctx,
		func(tx *store.Tx, after string) ([]string, error) {
			return tx.Operations().AccountsWithDeliveries(ctx, after, purgePage)
		},
		func(tx *store.Tx, account string) (int64, error) {
			return tx.Operations().PurgeDeliveries(ctx, account, purgeBatch)
		})
	if err != nil {
		return fmt.Errorf("deliveries: %w", err)
	}
	requests, err := p.requests(ctx, now)
	if err != nil {
		return fmt.Errorf("requests: %w", err)
	}
	if replies+receipts+sessions+events+calls+requests+hooks+secrets+audit > 0 {
		p.log.Info("removed what was past its retention", "replies", replies, "receipts", receipts, "sessions", sessions, "events", events, "toolCalls", calls, "requests", requests, "deliveries", hooks, "secrets", secrets, "audit", audit)
	}
	return nil
}

// receiptsBefore returns the time before which receipts may be removed: at most before, and at most the end of the
// final statements, because those cannot be computed without receipts.
func (p *Purger) receiptsBefore(ctx context.Context, before time.Time) (time.Time, error) {
	err := p.store.Read(ctx, func(tx *store.Tx) error {
		_, until, err := tx.Books().FinalStatements(ctx)
		if until.Before(before) {
			before = until
		}
		return err
	})
	return before, err
}

// requests removes rows of the request log that are too old, or too many for an account. The writer of the log
// removes surplus rows too, but only of accounts with new ones.
func (p *Purger) requests(ctx context.Context, now time.Time) (int64, error) {
	kept, most := p.logs()
	before := now.Add(-kept)
	old, err := p.drain(ctx, func(tx *store.Tx) (int64, error) { return tx.Operations().PurgeRequests(ctx, before, purgeBatch) })
	if err != nil || most <= 0 {
		return old, err
	}
	beyond, err := p.each(ctx,
		func(tx *store.Tx, after string) ([]string, error) {
			return tx.Operations().AccountsWithRequests(ctx, most, after, purgePage)
		},
		func(tx *store.Tx, account string) (int64, error) {
			return tx.Operations().PurgeRequestsBeyond(ctx, account, most, purgeBatch)
		})
	return old + beyond, err
}

// each drains every owner that list returns, page by page.
func (p *Purger) each(ctx context.Context, list func(tx *store.Tx, after string) ([]string, error), purge func(tx *store.Tx, id string) (int64, error)) (total int64, err error) {
	after := ""
	for {
		ids, err := store.Read(ctx, p.store, func(tx *store.Tx) ([]string, error) { return list(tx, after) })
		if err != nil {
			return total, err
		}
		for _, id := range ids {
			n, err := p.drain(ctx, func(tx *store.Tx) (int64, error) { return purge(tx, id) })
			if total += n; err != nil {
				return total, err
			}
			after = id
		}
		if len(ids) < purgePage {
			return total, nil
		}
	}
}

// drain runs a purge in small transactions until it finds nothing more.
func (p *Purger) drain(ctx context.Context, purge func(tx *store.Tx) (int64, error)) (total int64, err error) {
	for {
		n, err := store.Write(ctx, p.store, purge)
		if err != nil {
			return total, err
		}
		if total += n; n < purgeBatch {
			return total, nil
		}
		rest := time.NewTimer(p.pause)
		select {
		case <-rest.C:
		case <-ctx.Done():
			rest.Stop()
			return total, ctx.Err()
		}
	}
}
