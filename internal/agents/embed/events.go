package embed

import (
	"stoa/internal/agents/session"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// reasonOperator is the reason that a visitor sees when a session waits for its owner's people. It
// replaces the real one, because the decision concerns the owner only.
const reasonOperator = "waiting_for_operator"

// Visible reports whether a visitor may see an event, and removes the data that concerns only the
// owner. Types that are not listed here are invisible, so that a new type never leaks.
func Visible(e *stoa.SessionEvent) bool {
	switch e.Type {
	case session.EventMessageCreated, session.EventMessageDone, session.EventDelta:
		return true
	case session.EventInputRequested, session.EventInputAnswered, session.EventInputExpired:
		var d session.InputData
		if jsonx.Unmarshal([]byte(e.Data), &d) != nil {
			return false
		}
		if d.Kind == stoa.InputToolConfirmation {
			out := session.InputData{InputID: d.InputID, Kind: d.Kind, Turn: d.Turn}
			if e.Type == session.EventInputRequested { // only the members that the question shows
				out.Prompt, out.ExpiresAt, out.Confirmation = confirmPrompt, d.ExpiresAt, d.Confirmation
			}
			return replaceData(e, out)
		}
		return d.Kind == stoa.InputQuestion || d.Kind == stoa.InputChoice || d.Kind == stoa.InputApproval
	case session.EventStatus:
		var d session.StatusData
		if jsonx.Unmarshal([]byte(e.Data), &d) != nil {
			return false
		}
		reason := d.StatusReason
		if d.StatusReason = ""; reason == session.ReasonApproval {
			d.StatusReason = reasonOperator
		}
		if reason == session.ReasonTool || reason == session.ReasonApproval {
			d.Status = string(stoa.SessionRunning)
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

const confirmPrompt = "Confirm this action? Nothing happens before you confirm it."

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
