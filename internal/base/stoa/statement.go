package stoa

import (
	"cmp"
	"slices"
	"time"
)

// A Statement is the account of one UTC month. A balance is the unspent credits, held ones
// included.
type Statement struct {
	AccountID string            `db:"account_id"`
	Month     Month             `db:"month"`
	Opening   Credits           `db:"opening"`
	Charged   Credits           `db:"charged"`
	Closing   Credits           `db:"closing"`
	Grants    []StatementGrants `db:"grants,json"`
	Charges   []StatementCharge `db:"charges,json"`
	FinalAt   time.Time         `db:"final_at"` // time of storage; zero if it was computed
	Final     bool
}

// StatementGrants are the grants of a kind in a month; withdrawals are below zero.
type StatementGrants struct {
	Kind   GrantKind `json:"kind"`
	Count  int64     `json:"count"`
	Amount Credits   `json:"amount"`
}

// A StatementCharge is the use of a model on a day.
type StatementCharge struct {
	Day          string  `json:"day,omitzero"` // as 2006-01-02; empty for the sum of the month
	Model        string  `json:"model"`
	Calls        int64   `json:"calls"`
	InputTokens  int64   `json:"input"`
	OutputTokens int64   `json:"output"`
	Amount       Credits `json:"amount"`
}

// Granted returns the sums of the grants and of the withdrawals, which is zero or less.
func (s Statement) Granted() (granted, withdrawn Credits) {
	for _, g := range s.Grants {
		granted, withdrawn = granted+max(g.Amount, 0), withdrawn+min(g.Amount, 0)
	}
	return granted, withdrawn
}

// ByModel returns the charges without their days, in order of the models.
func (s Statement) ByModel() []StatementCharge {
	var sums []StatementCharge
	at := map[string]int{}
	for _, c := range s.Charges {
		i, seen := at[c.Model]
		if !seen {
			i = len(sums)
			at[c.Model] = i
			sums = append(sums, StatementCharge{Model: c.Model})
		}
		sum := &sums[i]
		sum.Calls, sum.InputTokens, sum.OutputTokens, sum.Amount = sum.Calls+c.Calls, sum.InputTokens+c.InputTokens, sum.OutputTokens+c.OutputTokens, sum.Amount+c.Amount
	}
	slices.SortFunc(sums, func(a, b StatementCharge) int { return cmp.Compare(a.Model, b.Model) })
	return sums
}

// A Month is a month of UTC, as 2006-01. Months are ordered as texts.
type Month string

// MonthOf returns the month of a time.
func MonthOf(t time.Time) Month { return Month(t.UTC().Format("2006-01")) }

// ParseMonth returns the month of a text such as 2026-11.
func ParseMonth(s string) (Month, bool) {
	at, err := time.Parse("2006-01", s)
	return MonthOf(at), err == nil && at.Year() >= 1970
}

// Start returns the beginning of the month.
func (m Month) Start() time.Time {
	at, _ := time.Parse("2006-01", string(m)) // cannot fail, because a Month has been parsed before
	return at
}

// End returns the beginning of the next month.
func (m Month) End() time.Time { return m.Start().AddDate(0, 1, 0) }

// Next returns the next month.
func (m Month) Next() Month { return MonthOf(m.End()) }
