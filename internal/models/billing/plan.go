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

const (
	renewEvery    = time.Minute
	renewTogether = 100 // accounts or periods per read
)

// RunPlans grants the credits that plans include, and withdraws those that were not spent in their
// month, until ctx ends. plans returns the present plans.
func (l *Ledger) RunPlans(ctx context.Context, plans func() map[string]stoa.Plan) error {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		if err := l.RenewPlans(ctx, plans(), l.now()); err != nil && ctx.Err() == nil {
			l.log.LogAttrs(ctx, slog.LevelWarn, "plans could not be renewed; it is tried again", slog.Any("error", err))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// RenewPlans closes the periods of months before now, and begins those of the month of now. Several
// nodes may do it at the same time. An account whose period cannot be closed gets its next grant later.
func (l *Ledger) RenewPlans(ctx context.Context, plans map[string]stoa.Plan, now time.Time) error {
	month := stoa.MonthOf(now)
	var failed []error
	for { // ends, because a period that fails stays claimed
		var ended []store.PlanPeriod
		err := l.st.Read(ctx, func(tx *store.Tx) (err error) {
			ended, err = tx.Books().EndedPlanPeriods(ctx, month, renewTogether)
			return err
		})
		if err != nil {
			return err
		}
		for _, p := range ended {
			if err := l.closePeriod(ctx, p); err != nil {
				failed = append(failed, fmt.Errorf("%s of %s: %w", p.Month, p.AccountID, err))
			}
		}
		if len(ended) < renewTogether || len(failed) >= renewTogether {
			break
		}
	}
	for id, plan := range plans {
		if plan.Included == 0 {
			continue
		}
		for after := ""; ; {
			var accounts []string
			err := l.st.Read(ctx, func(tx *store.Tx) (err error) {
				accounts, err = tx.Books().AccountsWithoutPeriod(ctx, id, month, after, renewTogether)
				return err
			})
			if err != nil {
				return err
			}
			for _, account := range accounts {
				after = account
				err := l.st.Write(ctx, func(tx *store.Tx) error { return l.GrantPlanIn(ctx, tx, account, plan, now) })
				if err != nil {
					failed = append(failed, fmt.Errorf("%s: %w", account, err))
				}
			}
			if len(accounts) < renewTogether {
				break
			}
		}
	}
	return errors.Join(failed...)
}

// GrantPlanIn grants the credits that a plan includes for the month of now, once for each month of an account,
// whatever its plans. It does nothing before the period of an earlier month is closed.
func (l *Ledger) GrantPlanIn(ctx context.Context, tx *store.Tx, accountID string, plan stoa.Plan, now time.Time) error {
	month := stoa.MonthOf(now)
	if plan.Included == 0 {
		return nil
	}
	if has, err := tx.Books().HasPlanPeriod(ctx, accountID, month); err != nil || has {
		return err
	}
	g, created, err := l.GrantIn(ctx, tx, stoa.Grant{
		AccountID: accountID, Amount: plan.Included, Reason: "included in the plan " + plan.ID, ExternalRef: periodRef("plan", accountID, month), Kind: stoa.PlanGrant,
	})
	if err != nil || !created {
		return err
	}
	tx.AuditAutomatic(accountID, "plan.granted", g.ID, plan.ID)
	return tx.Books().InsertPlanPeriod(ctx, g, month, plan.ID)
}

// periodRef is the reference of the grant or the withdrawal of a period, such as plan:acc_1:2026-12-01.
func periodRef(kind, accountID string, month stoa.Month) string {
	return kind + ":" + accountID + ":" + month.Start().Format(time.DateOnly)
}

// closePeriod withdraws the unspent part of a period, at most the available credits, unless another
// node does.
func (l *Ledger) closePeriod(ctx context.Context, p store.PlanPeriod) error {
	var claimed bool
	var unspent stoa.Credits
	err := l.st.Write(ctx, func(tx *store.Tx) (err error) {
		if claimed, err = tx.Books().ClaimPlanPeriod(ctx, p); err == nil && claimed {
			unspent, err = tx.Books().Unspent(ctx, p)
		}
		return err
	})
	if err != nil || !claimed {
		return err
	}
	if unspent > 0 {
		w := stoa.Withdrawal{
			AccountID: p.AccountID, Amount: unspent, Reason: "not spent in " + string(p.Month) + " of the plan " + p.Plan, ExternalRef: periodRef("plan_end", p.AccountID, p.Month), Kind: stoa.PlanEnd,
		}
		_, created, err := l.Withdraw(ctx, w, false, func(ctx context.Context, tx *store.Tx, w stoa.Withdrawal) error {
			tx.AuditAutomatic(p.AccountID, "plan.ended", w.ID, p.Plan)
			return tx.Books().ClosePlanPeriod(ctx, p)
		})
		if err != nil || created {
			return err
		}
	}
	return l.st.Write(ctx, func(tx *store.Tx) error { return tx.Books().ClosePlanPeriod(ctx, p) })
}
