package agent

import (
	"errors"
	"time"

	"stoa/internal/session"
	"stoa/internal/stoa"
)

// A failure is why a turn cannot go on, as its owner is told.
type failure struct {
	stoa.Failure
	passing bool          // another attempt may get further
	after   time.Duration // when, if the vendor said so
	cause   error         // for the log
}

func (f *failure) Error() string { return string(f.Code) + ": " + f.Message }

// limitParam is how the gateway says that the turn's own limit, not the balance,
// is in the way.
const limitParam = "limits.maxCreditsMicro"

// longestAfter bounds how long a vendor can make a turn wait.
const longestAfter = 30 * time.Second

// classify returns what an error means for its turn: the failure that callers see,
// whether a retry may help, and when.
func classify(err error) *failure {
	e := stoa.AsError(err)
	f := &failure{Failure: stoa.Failure{Code: e.Code, Message: e.Message, Retryable: true}, after: min(e.RetryAfter, longestAfter), cause: err}
	switch e.Code {
	case stoa.CodeQuota:
		f.cause = nil
		if e.Param == limitParam {
			f.Failure = stoa.Failure{Code: session.CodeCreditLimit, Message: e.Message}
		}
	case stoa.CodeKeyBudget, stoa.CodeSuspended:
		f.cause = nil
	case stoa.CodeModelUnavailable:
	case stoa.CodeModelNotFound, stoa.CodeContextLength, stoa.CodeInvalidPrompt, stoa.CodeInvalidValue, stoa.CodeUnsupported, stoa.CodeUnsupportedValue:
		f.Retryable = false
	case stoa.CodeNotFound, stoa.CodeUnauthorized, stoa.CodeScope:
		f.Failure = stoa.Failure{Code: stoa.CodeInternal, Message: "The account or agent of this session is no longer there."}
	default:
		f.passing = true
	}
	if errors.Is(err, errHandBack) || errors.Is(err, session.ErrCancelled) || errors.Is(err, errDeadline) {
		f.cause = nil
	}
	return f
}
