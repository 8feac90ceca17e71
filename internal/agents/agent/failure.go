package agent

import (
	"errors"
	"time"

	"stoa/internal/agents/session"
	"stoa/internal/base/stoa"
)

// A failure is the reason why a turn cannot continue, as its owner sees it.
type failure struct {
	stoa.Failure
	passing bool          // another attempt may succeed
	after   time.Duration // delay before that attempt, if the vendor named one
	cause   error         // for the log
}

func (f *failure) Error() string { return string(f.Code) + ": " + f.Message }

// limitParam distinguishes the turn's own limit from the balance in errors of the gateway.
const limitParam = "limits.maxCreditsMicro"

// longestAfter is the longest delay that a vendor can impose on a turn.
const longestAfter = 30 * time.Second

func classify(err error) *failure {
	e := stoa.AsError(err)
	f := &failure{Failure: stoa.Failure{Code: e.Code, Message: e.Message, Retryable: true}, after: min(e.RetryAfter, longestAfter), cause: err}
	switch e.Code {
	case stoa.CodeQuota:
		f.cause = nil
		if e.Param == limitParam {
			f.Failure = stoa.Failure{Code: session.CodeCreditLimit, Message: e.Message}
		}
	case stoa.CodeKeyBudget, stoa.CodeBudget, stoa.CodeSuspended:
		f.cause = nil
	case stoa.CodeModelUnavailable:
	case stoa.CodeModelNotFound, stoa.CodeModelNotAllowed, stoa.CodeMissingParameter, stoa.CodeContextLength, stoa.CodeInvalidPrompt, stoa.CodeInvalidValue, stoa.CodeUnsupported, stoa.CodeUnsupportedValue:
		f.Retryable = false
	case stoa.CodeNotFound, stoa.CodeUnauthorized, stoa.CodeScope:
		f.Failure = stoa.Failure{Code: stoa.CodeInternal, Message: "The account or agent of this session no longer exists."}
	default:
		f.passing = true
	}
	if e.Charged { // because a retry would be charged too
		f.Retryable, f.passing = false, false
	}
	if errors.Is(err, errHandBack) || errors.Is(err, session.ErrCancelled) || errors.Is(err, errDeadline) {
		f.cause = nil
	}
	return f
}
