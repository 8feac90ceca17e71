package stoa

import (
	"fmt"
	"time"
)

// A Budget limits the credits that the calls of a scope may spend in each of its periods.
type Budget struct {
	ID          string       `db:"id"`
	AccountID   string       `db:"account_id"`
	Scope       BudgetScope  `db:"scope"`
	Subject     string       `db:"subject"` // id of the limited subject, or [EachSubject]; empty for the scope account
	Period      BudgetPeriod `db:"period"`
	TimeZone    string       `db:"time_zone"` // IANA zone whose midnights divide the periods
	Limit       Credits      `db:"limit_micro"`
	AtCap       AtCap        `db:"at_cap"`
	NotifyAt    []int        `db:"notify_at,optional"` // marks in percent of the limit, ascending
	ByOperator  bool         `db:"by_operator"`        // an operator set it for the account, whose members cannot change it
	EffectiveAt time.Time    `db:"effective_at"`       // calls that began earlier are not limited
	Revision    int64        `db:"revision"`
	CreatedAt   time.Time    `db:"created_at"`
	UpdatedAt   time.Time    `db:"updated_at"`
}

// EachSubject is the subject of a budget that limits each subject of its scope separately. A
// budget that names a subject replaces it for that subject.
const EachSubject = "*"

// A BudgetScope selects the calls that count for a budget.
type BudgetScope string

// The scopes of budgets. A key counts together with the keys of its family; see [Key.Root].
const (
	BudgetOfAccount BudgetScope = "account"
	BudgetOfMember  BudgetScope = "member"
	BudgetOfKey     BudgetScope = "key"
	BudgetOfAgent   BudgetScope = "agent"
	BudgetOfEmbed   BudgetScope = "embed"
	BudgetOfEndUser BudgetScope = "end_user"
)

// A BudgetPeriod is the time after which a budget begins again.
type BudgetPeriod string

// The periods of budgets. A week begins on Monday; a total never ends.
const (
	BudgetDay   BudgetPeriod = "day"
	BudgetWeek  BudgetPeriod = "week"
	BudgetMonth BudgetPeriod = "month"
	BudgetTotal BudgetPeriod = "total"
)

// AtCap is the treatment of a call for which a budget has too little left.
type AtCap string

// The treatments.
const (
	CapShortens AtCap = "shorten" // the call may write less output; below a minimum it is refused
	CapRefuses  AtCap = "refuse"
)

// Limits of budgets.
const (
	MaxBudgets       = 200     // for each account
	MaxCallBudgets   = 8       // pairs of scope and period in an account, because each call updates a window for each
	MaxBudgetWindows = 100_000 // current windows of an account
	MaxBudgetMarks   = 8       // for each budget
)

// Spenders are the subjects of a call. Budgets count it for each one that is not empty.
type Spenders struct {
	Member, Key, Agent, Embed, EndUser string
}

// Of returns the subject of a scope, and whether the call has one.
func (s Spenders) Of(scope BudgetScope) (subject string, ok bool) {
	switch scope {
	case BudgetOfAccount:
		return "", true
	case BudgetOfMember:
		subject = s.Member
	case BudgetOfKey:
		subject = s.Key
	case BudgetOfAgent:
		subject = s.Agent
	case BudgetOfEmbed:
		subject = s.Embed
	case BudgetOfEndUser:
		subject = s.EndUser
	}
	return subject, subject != ""
}

// String describes the budget in an error.
func (b *Budget) String() string {
	of := string(b.Scope)
	if b.Scope == BudgetOfEndUser {
		of = "end user"
	}
	if b.Period == BudgetTotal {
		return fmt.Sprintf("%s (%s credits in total for each %s)", b.ID, b.Limit, of)
	}
	return fmt.Sprintf("%s (%s credits a %s for the %s)", b.ID, b.Limit, b.Period, of)
}
