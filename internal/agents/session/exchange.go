package session

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// An Exchange is the result of one message until the session stops: the texts of the agent, joined, and the charges. It is
// made from the events after the message, so that nothing else is stored about it, and any process can read it again.
type Exchange struct {
	AccountID, SessionID string
	After                int64 // number of the last event of the message

	Text     string // so far
	Status   stoa.SessionStatus
	Reason   string        // for the status
	Input    string        // kind of the input that it waits for
	Failure  *stoa.Failure // of a failed turn
	Receipts []string      // ids of the charges so far
	EndedAt  time.Time     // time of its last status
	Sources  []string      // paths of files that were read for it, at most maxSources
	Choices  []string      // of the question that it ends with

	apart   string // id of the newest message that is not part of the answer
	message string // id of the message that is being written
	sent    string // text of that message so far
}

// maxSources is the maximum number of sources of an exchange.
const maxSources = 50

// Ended reports whether the exchange has ended: the session no longer works, and a program cannot make it continue.
func (x *Exchange) Ended() bool { return x.Status.Stopped() && x.Reason != ReasonTool }

// Add adds the next event and returns the text that it adds.
func (x *Exchange) Add(e stoa.SessionEvent) (text string, err error) {
	before := len(x.Text)
	read := func(into any) bool {
		err = jsonx.Unmarshal([]byte(e.Data), into)
		return err == nil
	}
	switch e.Type {
	case EventMessageCreated, EventMessageDone:
		var d MessageData
		if read(&d) && d.Apart {
			x.apart = d.MessageID
		} else if err == nil && d.Role == string(stoa.RoleAssistant) && d.Text != nil {
			x.become(d.MessageID, *d.Text)
		}
	case EventDelta:
		var d DeltaData
		if read(&d) {
			if d.MessageID == x.apart {
				break
			}
			if d.MessageID != x.message {
				x.become(d.MessageID, d.Text)
			} else {
				x.become(d.MessageID, x.sent[:byteOffset([]byte(x.sent), d.Offset)]+d.Text)
			}
		}
	case EventInputRequested:
		var d InputData
		if read(&d) {
			x.Input, x.Choices = d.Kind, d.Options
			for _, o := range d.Options {
				x.Text += "\n- " + o
			}
		}
	case EventDriveRead:
		var d DriveData
		if read(&d) && len(x.Sources) < maxSources && !slices.Contains(x.Sources, d.Path) {
			x.Sources = append(x.Sources, d.Path)
		}
	case EventStepDone:
		var d StepData
		if read(&d) {
			x.Receipts = append(x.Receipts, d.StepID)
		}
	case EventCompacted:
		var d CompactedData
		if read(&d) {
			x.Receipts = append(x.Receipts, d.ReceiptID)
		}
	case EventError:
		var d ErrorData
		if read(&d) {
			x.Failure = &stoa.Failure{Code: stoa.Code(d.Code), Message: d.Message, Retryable: d.Retryable}
		}
	case EventStatus:
		x.Status, x.Reason = statusOf(e)
		x.EndedAt = e.At
	}
	return x.Text[before:], err
}

// become adds the rest of a message whose text so far is given. If another process writes the message again, in other
// words, the text cannot be taken back: the message begins again in a new paragraph.
func (x *Exchange) become(id, text string) {
	switch same := id == x.message; {
	case same && strings.HasPrefix(x.sent, text):
		if len(text) < len(x.sent) {
			return // because it is being written again
		}
	case same && strings.HasPrefix(text, x.sent):
		x.Text += text[len(x.sent):]
	case text == "":
		return
	default:
		if x.Text != "" {
			x.Text += "\n\n"
		}
		x.Text += text
	}
	x.message, x.sent = id, text
}

// Follow ranges over the texts of an exchange as they are written, until it has ended or ctx ends, whose error is the last
// value yielded.
func (s *Sessions) Follow(ctx context.Context, x *Exchange) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for e, err := range s.Events(ctx, EventsRequest{AccountID: x.AccountID, SessionID: x.SessionID, After: x.After, Follow: true}) {
			text := ""
			if err == nil {
				text, err = x.Add(e)
			}
			if (text != "" || err != nil) && !yield(text, err) || err != nil || x.Ended() {
				return
			}
		}
		if !x.Ended() {
			yield("", stoa.Errorf(stoa.CodeSessionNotFound, "The session was deleted."))
		}
	}
}

// Read returns the exchange as far as it is written.
func (s *Sessions) Read(ctx context.Context, accountID, sessionID string, after int64) (*Exchange, error) {
	x := &Exchange{AccountID: accountID, SessionID: sessionID, After: after, Status: stoa.SessionQueued}
	for more := true; more && !x.Ended(); {
		var events []stoa.SessionEvent
		var err error
		if events, more, err = s.Log(ctx, accountID, "", sessionID, after, eventBatch); err != nil {
			return nil, err
		}
		for _, e := range events {
			if after = e.Seq; x.Ended() {
				break
			}
			if _, err := x.Add(e); err != nil {
				return nil, err
			}
		}
	}
	return x, nil
}

// LastExchange returns the exchange of the newest message of a session's user, with nothing read yet.
func (s *Sessions) LastExchange(ctx context.Context, accountID, agentID, sessionID string) (*Exchange, error) {
	after := int64(0)
	err := s.read(ctx, accountID, agentID, sessionID, func(tx *store.Tx, row stoa.Session) error {
		newest, _, err := tx.Work().Messages(ctx, sessionID, 0, eventBatch, true)
		for _, m := range newest {
			if m.Role == stoa.RoleUser && m.Status != stoa.MessageQueued {
				after = m.FirstSeq
				break
			}
		}
		return err
	})
	return &Exchange{AccountID: accountID, SessionID: sessionID, After: after, Status: stoa.SessionQueued}, err
}

// Charges returns the sum of the charges of an exchange so far.
func (s *Sessions) Charges(ctx context.Context, x *Exchange) (stoa.Charge, error) {
	return store.Read(ctx, s.store, func(tx *store.Tx) (sum stoa.Charge, err error) {
		for _, id := range x.Receipts {
			c, _, err := tx.Books().ChargeByID(ctx, id)
			if err != nil {
				return sum, err
			}
			sum.Amount += c.Amount
			sum.Usage = sum.Usage.Plus(c.Usage)
			sum.Estimated = sum.Estimated || c.Estimated
		}
		return sum, nil
	})
}
