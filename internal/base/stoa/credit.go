package stoa

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Credits are integer micro-credits, a millionth of a credit each. They must never become a
// float. A call is rounded up once, in [Price.Cost], so that a reader of
// the receipt computes the same amount.
type Credits int64

// Credit is one whole credit, worth one US dollar of list price by default.
const Credit Credits = 1_000_000

// String returns whole credits with two to six decimals.
func (c Credits) String() string {
	sign, n := "", uint64(c)
	if c < 0 {
		sign, n = "-", -n
	}
	frac := strings.TrimRight(fmt.Sprintf("%06d", n%1_000_000), "0")
	for len(frac) < 2 {
		frac += "0"
	}
	return fmt.Sprintf("%s%d.%s", sign, n/1_000_000, frac)
}

// Usage contains the provider's token counts of one model call. InputTokens includes the cached
// tokens and those written to a cache; CacheWriteTokens includes those written for a long
// lifetime; OutputTokens includes the reasoning tokens.
type Usage struct {
	InputTokens          int64 `db:"input_tokens"`
	CachedTokens         int64 `db:"cached_tokens"`
	CacheWriteTokens     int64 `db:"cache_write_tokens"`
	CacheWriteLongTokens int64 `db:"cache_write_long_tokens"`
	OutputTokens         int64 `db:"output_tokens"`
	ReasoningTokens      int64 `db:"reasoning_tokens"`
}

// Total is input plus output.
func (u Usage) Total() int64 { return u.InputTokens + u.OutputTokens }

// Plus returns the sum of two counts.
func (u Usage) Plus(o Usage) Usage {
	return Usage{
		u.InputTokens + o.InputTokens, u.CachedTokens + o.CachedTokens, u.CacheWriteTokens + o.CacheWriteTokens, u.CacheWriteLongTokens + o.CacheWriteLongTokens,
		u.OutputTokens + o.OutputTokens, u.ReasoningTokens + o.ReasoningTokens,
	}
}

// MaxTokens is the largest count of tokens accepted for one call. It is far above the window of any
// model, so that a larger count is an error of the provider, and it keeps every product of
// [Price.Cost] inside an int64.
const MaxTokens = 1 << 30

// Sane reports whether the counts are plausible: none is negative or above [MaxTokens], and
// no part is larger than its whole.
func (u Usage) Sane() bool {
	for _, n := range []int64{u.InputTokens, u.CachedTokens, u.CacheWriteTokens, u.CacheWriteLongTokens, u.OutputTokens, u.ReasoningTokens} {
		if n < 0 || n > MaxTokens {
			return false
		}
	}
	return u.CachedTokens+u.CacheWriteTokens <= u.InputTokens && u.CacheWriteLongTokens <= u.CacheWriteTokens && u.ReasoningTokens <= u.OutputTokens
}

// MaxRate is the highest price of a million tokens in settings: a thousand credits. The rates of
// cache writes that package catalog derives reach twice of it, which [Price.Cost] allows for.
const MaxRate = 1000 * Credit

// A Price contains the rates of one call, in micro-credits per million tokens, after the rules of a
// [Tariff]. The rates of input are ordered: CachedInput ≤ Input ≤ CacheWrite ≤ CacheWriteLong.
type Price struct {
	Input          Credits `db:"price_input"`
	CachedInput    Credits `db:"price_cached_input"`     // rate of input read from a vendor's cache
	CacheWrite     Credits `db:"price_cache_write"`      // rate of input written to the cache
	CacheWriteLong Credits `db:"price_cache_write_long"` // rate of input written to the cache for a long lifetime
	Output         Credits `db:"price_output"`
	Version        string  `db:"price_version"`
	Band           string  `db:"price_band"` // rules of the tariff that apply; empty if none does
}

// Cost returns the charge of a call: rates times tokens, rounded up once. It expects
// sane usage and rates from 0 to twice [MaxRate].
func (p Price) Cost(u Usage) Credits {
	sum := (u.InputTokens-u.CachedTokens-u.CacheWriteTokens)*int64(p.Input) + u.CachedTokens*int64(p.CachedInput) +
		(u.CacheWriteTokens-u.CacheWriteLongTokens)*int64(p.CacheWrite) + u.CacheWriteLongTokens*int64(p.CacheWriteLong) +
		u.OutputTokens*int64(p.Output)
	return Credits((sum + 999_999) / 1_000_000)
}

// Charge returns the charge of a call that another model than the requested one served. It is at most
// the cost at the price of requested, and capped reports whether that was lower.
func (p Price) Charge(u Usage, requested Price) (amount Credits, capped bool) {
	amount = p.Cost(u)
	if most := requested.Cost(u); most < amount {
		return most, true
	}
	return amount, false
}

// Most returns the maximum cost of a call before the vendor has counted it: its cost if the vendor
// writes all of the input to a cache. A hold of less would not cover such a call.
func (p Price) Most(inputTokens, outputTokens int64) Credits {
	p.Input = p.highestInput()
	return p.Cost(Usage{InputTokens: inputTokens, OutputTokens: outputTokens})
}

// highestInput is the highest rate of an input token. It excludes long writes, because Stoa never
// requests them.
func (p Price) highestInput() Credits { return max(p.Input, p.CacheWrite) }

// Saved returns the cost of the input at the full rate minus its cost. It is negative if the writes
// to the vendor's cache cost more than the reads saved.
func (p Price) Saved(u Usage) Credits {
	sum := u.CachedTokens*int64(p.Input-p.CachedInput) - (u.CacheWriteTokens-u.CacheWriteLongTokens)*int64(max(p.CacheWrite, p.Input)-p.Input) -
		u.CacheWriteLongTokens*int64(max(p.CacheWriteLong, p.Input)-p.Input)
	return Credits(sum / 1_000_000)
}

// Affords returns the largest number of output tokens for which [Price.Most] does not
// exceed the amount; it is negative if the input alone costs more.
func (p Price) Affords(amount Credits, inputTokens int64) int64 {
	left := int64(amount)*1_000_000 - inputTokens*int64(p.highestInput())
	if amount > math.MaxInt64/1_000_000 {
		left = math.MaxInt64
	}
	if left < 0 {
		return -1
	}
	if p.Output == 0 {
		return MaxTokens
	}
	return min(left/int64(p.Output), MaxTokens)
}

// EstimateTokens estimates the tokens of a text that no provider counted: a third of the
// bytes, rounded up. A message adds [TokensPerMessage].
func EstimateTokens(bytes int) int64 { return (int64(bytes) + 2) / 3 }

// TokensPerMessage is added to an estimate for each message.
const TokensPerMessage = 4

// Balance is the state of an account's credits. Granted = Available + Held + Spent unless a write is
// in progress.
type Balance struct {
	Available Credits
	Held      Credits // reserved by calls in flight
	Granted   Credits // sum without withdrawn credits
	Spent     Credits
	Owed      Credits // rest of withdrawals that later grants pay first
}

// A Charge is the entry of a settled call, and its receipt. It is written once per ID and
// immutable, so that a repeated transaction charges nothing twice.
type Charge struct {
	ID        string `db:"id"` // resp_…, or ses_….turn.step
	AccountID string `db:"account_id"`
	KeyID     string `db:"key_id"`

	Asked    string      `db:"asked"`
	Served   string      `db:"served"`
	Reason   string      `db:"reason"` // reason for a difference: alias, auto, plan; empty if they are equal
	Provider string      `db:"provider"`
	Route    RouteReason `db:"route_reason"` // reason for the provider; empty if unknown
	RouteKey string      `db:"route_key"`    // id of the provider's key, if it has several

	Usage  Usage
	Price  Price   // rates that Amount was computed with
	Amount Credits `db:"amount"`

	Estimated  bool    `db:"estimated"`   // usage was estimated, because the provider did not report it
	Clamped    bool    `db:"clamped"`     // amount was lowered to what the account could cover
	Capped     bool    `db:"capped"`      // amount was lowered to the requested model's price
	WrittenOff Credits `db:"written_off"` // credits that clamping gave up

	Adjustments Adjustments // changes to the call, from a separate table
	Broke       Broke       `db:"broke"`     // reason why the vendor's cache did not serve a session's call; empty if it did, or if the call is the first
	MarkedBy    MarkedBy    `db:"marked_by"` // party that marked the input for the vendor's cache; empty if unknown
	Ignored     string      `db:"ignored"`   // paths of request members without effect, one per line

	State      string        `db:"state"`    // completed, incomplete or cancelled
	EndUser    string        `db:"end_user"` // safety_identifier or user of the call, or the session's externalUserId
	SpaceID    string        `db:"space_id"` // only of an agent's step, like the next two fields
	AgentID    string        `db:"agent_id"`
	SessionID  string        `db:"session_id"`
	MemberID   string        `db:"member_id"` // person whose key made the call; empty if the key belongs to the account
	EmbedID    string        `db:"embed_id"`  // script tag, link or embed session of a visitor's chat, or the hook of a session
	RootID     string        `db:"root_id"`   // root of the key's family; see [Key.Root]
	Windows    string        `db:"windows"`   // ids of the budget windows that counted it, separated by spaces
	StartedAt  time.Time     `db:"started_at"`
	FirstToken time.Duration `db:"first_token"` // time from start to the first text; 0 if none
	Duration   time.Duration `db:"duration"`
}

// A VendorFailure is a request that failed free of charge after its provider had received it. It
// is recorded because the provider may bill it.
type VendorFailure struct {
	ID               string    `db:"id"`
	AccountID        string    `db:"account_id"`
	Provider         string    `db:"provider"`
	Model            string    `db:"served"`
	InputTokens      int64     `db:"input_tokens"`
	CachedTokens     int64     `db:"cached_tokens"`
	CacheWriteTokens int64     `db:"cache_write_tokens"`
	OutputTokens     int64     `db:"output_tokens"`
	ReasoningTokens  int64     `db:"reasoning_tokens"`
	Estimated        bool      `db:"estimated"` // the provider reported no usage, so that it was estimated
	CreatedAt        time.Time `db:"created_at"`
}

// A Grant adds credits to an account. ExternalRef, if set, is unique in the service, so that the
// grant happens once.
type Grant struct {
	ID          string    `db:"id"`
	AccountID   string    `db:"account_id"`
	Amount      Credits   `db:"amount"`
	Reason      string    `db:"reason"`
	ExternalRef string    `db:"external_ref,null"`
	Kind        GrantKind `db:"kind"`
	CreatedAt   time.Time `db:"created_at"`
	Repaid      Credits   // debt that the grant paid
}

// A GrantKind is the origin of a grant.
type GrantKind string

// The kinds of grants.
const (
	GrantByOperator GrantKind = "grant" // also the first credits of an account
	Withdrawn       GrantKind = "withdrawal"
	PlanGrant       GrantKind = "plan"
	PlanEnd         GrantKind = "plan_end"  // return of a plan grant's unspent part
	Repayment       GrantKind = "repayment" // payment of what withdrawals could not take
	Purchase        GrantKind = "purchase"
	Refund          GrantKind = "refund"
	RefundReversal  GrantKind = "refund_reversal"
)

// A Withdrawal takes credits from an account. ExternalRef is unique in the service, so that it
// happens once.
type Withdrawal struct {
	ID          string    `db:"id"`
	AccountID   string    `db:"account_id"`
	Amount      Credits   `db:"amount"`
	Taken       Credits   `db:"taken"`
	Reason      string    `db:"reason"`
	ExternalRef string    `db:"external_ref"`
	Kind        GrantKind `db:"kind"`
	CreatedAt   time.Time `db:"created_at"`
}

// Owed returns the part that could not be taken.
func (w Withdrawal) Owed() Credits { return w.Amount - w.Taken }
