package stoa

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Credits are integer micro-credits: a millionth of a credit each. No float
// ever touches them.
// See docs/decisions/0005-integer-micro-credits.md.
type Credits int64

// Credit is one whole credit, worth one US dollar of list price by default.
const Credit Credits = 1_000_000

// String writes whole credits with at least two and at most six decimals.
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

// Usage is what one model call took, in tokens, as its vendor counted them.
// InputTokens includes the cached ones and those written to a cache;
// OutputTokens includes the reasoning ones.
type Usage struct {
	InputTokens      int64
	CachedTokens     int64
	CacheWriteTokens int64
	OutputTokens     int64
	ReasoningTokens  int64
}

// Total is input plus output.
func (u Usage) Total() int64 { return u.InputTokens + u.OutputTokens }

// MaxTokens is the largest count of tokens that is believed of one call. It is
// far above any model's window; what is larger is a vendor's mistake, and it
// keeps every product of [Price.Cost] inside an int64.
const MaxTokens = 1 << 30

// Sane reports whether the counts can be true: none negative, none above
// [MaxTokens], no part larger than its whole.
func (u Usage) Sane() bool {
	for _, n := range []int64{u.InputTokens, u.CachedTokens, u.CacheWriteTokens, u.OutputTokens, u.ReasoningTokens} {
		if n < 0 || n > MaxTokens {
			return false
		}
	}
	return u.CachedTokens+u.CacheWriteTokens <= u.InputTokens && u.ReasoningTokens <= u.OutputTokens
}

// MaxRate is the highest price of a million tokens: a thousand credits.
const MaxRate = 1000 * Credit

// A Price is what a model costs, in micro-credits per million tokens.
type Price struct {
	Input       Credits `json:"input" yaml:"input"`
	CachedInput Credits `json:"cachedInput" yaml:"cachedInput"` // of input read from a vendor's cache
	Output      Credits `json:"output" yaml:"output"`
	Version     string  `json:"-" yaml:"-"` // names the price list the rates come from
}

// Cost is the charge of a call: rates times tokens, rounded up once. It expects
// sane usage and rates from 0 to [MaxRate].
func (p Price) Cost(u Usage) Credits {
	sum := (u.InputTokens-u.CachedTokens)*int64(p.Input) + u.CachedTokens*int64(p.CachedInput) + u.OutputTokens*int64(p.Output)
	return Credits((sum + 999_999) / 1_000_000)
}

// Affords is the largest number of output tokens that, beside the given input,
// costs at most the amount; it is negative when the input alone costs more.
func (p Price) Affords(amount Credits, inputTokens int64) int64 {
	left := int64(amount)*1_000_000 - inputTokens*int64(p.Input)
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

// EstimateTokens is the one estimator of the house: a third of the bytes,
// rounded up. A message adds [TokensPerMessage].
func EstimateTokens(bytes int) int64 { return (int64(bytes) + 2) / 3 }

// TokensPerMessage is what a message costs beside its text in an estimate.
const TokensPerMessage = 4

// Balance is what an account has. Granted = Available + Held + Spent whenever
// nothing is being written.
type Balance struct {
	Available Credits
	Held      Credits // set aside for calls that run now
	Granted   Credits
	Spent     Credits
}

// A Charge is the line written when a call is settled: once per ID, never
// changed afterwards. It is also the call's receipt.
type Charge struct {
	ID        string // resp_…, or ses_….turn.step
	AccountID string
	KeyID     string

	Asked    string // the model as the caller wrote it
	Served   string // the identifier that served
	Reason   string // why they differ: alias, auto, plan; empty when they do not
	Provider string // who served it

	Usage  Usage
	Price  Price // the rates the amount was computed with
	Amount Credits

	Estimated  bool    // usage counted here, not by the vendor
	Clamped    bool    // the account could not cover all of it
	Capped     bool    // lowered to the requested model's price
	WrittenOff Credits // what clamping gave up

	State      string // completed, incomplete or cancelled
	EndUser    string // "user" of the call, or the session's externalUserId
	SpaceID    string // of an agent's step
	AgentID    string
	SessionID  string
	StartedAt  time.Time
	FirstToken time.Duration // from start to the first text; 0: there was none
	Duration   time.Duration
}

// A Grant adds credits to an account. ExternalRef, where given, makes it happen
// once: it is unique in the house.
type Grant struct {
	ID          string
	AccountID   string
	Amount      Credits
	Reason      string
	ExternalRef string
	CreatedAt   time.Time
}
