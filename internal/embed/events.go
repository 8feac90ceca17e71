package embed

import (
	"stoa/internal/jsonx"
	"stoa/internal/session"
	"stoa/internal/stoa"
)

// reasonOperator is what a visitor is told of a session that waits for a decision of its
// owner's people.
const reasonOperator = "waiting_for_operator"

// Visible reports whether a visitor may see an event, and removes from it what
// concerns the owner alone. Types that are not named here are never visible.
func Visible(e *stoa.SessionEvent) bool {
	switch e.Type {
	case session.EventMessageCreated, session.EventMessageDone, session.EventDelta:
		return true
	case session.EventInputRequested, session.EventInputAnswered, session.EventInputExpired:
		var d session.InputData
		if jsonx.Unmarshal([]byte(e.Data), &d) != nil {
			return false
		}
		return d.Kind == stoa.InputQuestion || d.Kind == stoa.InputChoice || d.Kind == stoa.InputApproval
	case session.EventStatus:
		var d session.StatusData
		if jsonx.Unmarshal([]byte(e.Data), &d) != nil {
			return false
		}
		forOperator := d.StatusReason == session.ReasonApproval
		if d.StatusReason == session.ReasonTool || d.StatusReason == session.ReasonApproval {
			d.Status = string(stoa.SessionRunning)
		}
		if d.StatusReason = ""; forOperator {
			d.StatusReason = reasonOperator
		}
		return replaceData(e, d)
	case session.EventError:
		var d session.ErrorData
		if jsonx.Unmarshal([]byte(e.Data), &d) != nil {
			return false
		}
		p := problemOf(stoa.Code(d.Code), d.Retryable)
		return replaceData(e, visitorError{Message: p.Message, Retryable: p.Retryable, Turn: d.Turn})
	}
	return false
}

// A visitorError is the data of an error event for a visitor.
type visitorError struct {
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
	Turn      int64  `json:"turn"`
}

func replaceData(e *stoa.SessionEvent, data any) bool {
	text, err := jsonx.Marshal(data)
	e.Data = string(text)
	return err == nil
}
