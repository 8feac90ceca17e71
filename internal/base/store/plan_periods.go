package store

import (
	"context"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// A PlanPeriod is a month in which an account received the credits that its plan includes.
type PlanPeriod struct {
	AccountID string       `db:"account_id"`
	Month     stoa.Month   `db:"month"`
	Plan      string       `db:"plan"`
	Amount    stoa.Credits `db:"amount"` // amount of the grant, without what it repaid
	Spent     stoa.Credits `db:"spent"`  // credits that the account had spent before the grant
	CreatedAt time.Time    `db:"created_at"`
	ClosedAt  time.Time    `db:"closed_at"` // zero if the unspent part was not withdrawn
	// ClaimedUntil is the time until which only the node that claimed the period closes it.
	ClaimedUntil time.Time `db:"claimed_until"`
	ClaimedBy    string    `db:"claimed_by"` // the node, with which the claim ends; empty without one
}

// planClaim is the time for which a node claims a period. It is longer than a withdrawal takes, so that
// no other node begins one.
const planClaim = time.Minute

var planPeriods = newTable[PlanPeriod]("plan_periods")

// InsertPlanPeriod begins the period of a grant that was just inserted.
func (tx Books) InsertPlanPeriod(ctx context.Context, g stoa.Grant, month stoa.Month, plan string) error {
	f, err := tx.Funds(ctx, g.AccountID)
	if err != nil {
		return err
	}
	p := PlanPeriod{AccountID: g.AccountID, Month: month, Plan: plan, Amount: g.Amount - g.Repaid, Spent: f.spent(), CreatedAt: tx.Now}
	_, err = planPeriods.insert(ctx, tx.Tx, &p, "")
	return err
}

// HasPlanPeriod reports whether an account has a period in a month, or an earlier one that is not closed.
func (tx Books) HasPlanPeriod(ctx context.Context, accountID string, month stoa.Month) (bool, error) {
	var one int
	return tx.Get(ctx, `SELECT 1 FROM plan_periods WHERE account_id = $1 AND (month = $2 OR closed_at = 0) LIMIT 1`, []any{accountID, string(month)}, &one)
}

// AccountsWithoutPeriod lists accounts of a plan that are not suspended and have neither a period in a month nor an
// earlier one that is not closed, by id and after the given one.
func (tx Books) AccountsWithoutPeriod(ctx context.Context, plan string, month stoa.Month, after string, limit int) ([]string, error) {
	return tx.texts(ctx, `SELECT id FROM accounts a WHERE plan = $1 AND id > $2 AND suspended = 0
		AND NOT EXISTS (SELECT 1 FROM plan_periods p WHERE p.account_id = a.id AND (p.month = $3 OR p.closed_at = 0)) ORDER BY id LIMIT $4`, plan, after, string(month), limit)
}

// EndedPlanPeriods lists up to limit periods before a month that are neither closed nor claimed.
func (tx Books) EndedPlanPeriods(ctx context.Context, month stoa.Month, limit int) ([]PlanPeriod, error) {
	return list(ctx, tx.Tx, planPeriods.scan, `SELECT `+planPeriods.columns+` FROM plan_periods WHERE closed_at = 0 AND month < $1 AND claimed_until <= $2 ORDER BY month, account_id LIMIT $3`, string(month), db.Micros(tx.Now), limit)
}

// Unspent returns the part of the included credits of a period that the account has not spent. Included
// credits are spent first.
func (tx Books) Unspent(ctx context.Context, p PlanPeriod) (stoa.Credits, error) {
	f, err := tx.Funds(ctx, p.AccountID)
	return max(0, p.Amount-(f.spent()-p.Spent)), err
}

// ClaimPlanPeriod claims a period for a minute, and reports whether it is open and not claimed. The claim
// is needed because nodes that close it together would take credits from each other's holds, and from the
// next grant.
func (tx Books) ClaimPlanPeriod(ctx context.Context, p PlanPeriod) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE plan_periods SET claimed_until = $3, claimed_by = $5 WHERE account_id = $1 AND month = $2 AND closed_at = 0 AND claimed_until <= $4`,
		p.AccountID, string(p.Month), db.Micros(tx.Now.Add(planClaim)), db.Micros(tx.Now), tx.s.node)
	return n > 0, err
}

// ClosePlanPeriod marks a period as closed. A closed one is CodeConflict.
func (tx Books) ClosePlanPeriod(ctx context.Context, p PlanPeriod) error {
	n, err := tx.Exec(ctx, `UPDATE plan_periods SET closed_at = $3, claimed_by = '' WHERE account_id = $1 AND month = $2 AND closed_at = 0`, p.AccountID, string(p.Month), db.Micros(tx.Now))
	if err == nil && n == 0 {
		err = stoa.Errorf(stoa.CodeConflict, "The credits of %s are settled already.", p.Month)
	}
	return err
}
