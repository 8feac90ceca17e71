package session

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// read runs fn with a session of an account's agent. An empty agentID means any agent;
// sessions of a deleted agent are not found.
func (s *Sessions) read(ctx context.Context, accountID, agentID, id string, fn func(tx *store.Tx, row stoa.Session) error) error {
	return s.store.Read(ctx, func(tx *store.Tx) error {
		if agentID != "" {
			if _, err := tx.Setup().Agent(ctx, accountID, agentID); err != nil {
				return err
			}
		}
		row, err := tx.Work().Session(ctx, accountID, agentID, id)
		if err != nil {
			return err
		}
		return fn(tx, row.Session)
	})
}

// Get reads a session. Like all methods that read one, it fails with [stoa.CodeAgentNotFound]
// or [stoa.CodeSessionNotFound].
func (s *Sessions) Get(ctx context.Context, accountID, agentID, id string) (stoa.Session, error) {
	var out stoa.Session
	err := s.read(ctx, accountID, agentID, id, func(_ *store.Tx, row stoa.Session) error {
		out = row
		return nil
	})
	return out, err
}

// Find reads a session of any agent of the account. It fails with [stoa.CodeSessionNotFound],
// also if the agent is deleted.
func (s *Sessions) Find(ctx context.Context, accountID, id string) (stoa.Session, error) {
	return store.Read(ctx, s.store, func(tx *store.Tx) (stoa.Session, error) {
		row, err := tx.Work().Session(ctx, accountID, "", id)
		if err != nil {
			return row.Session, err
		}
		if _, err = tx.Setup().Agent(ctx, accountID, row.AgentID); stoa.CodeOf(err) == stoa.CodeAgentNotFound {
			err = stoa.Errorf(stoa.CodeSessionNotFound, "There is no such session.")
		}
		return row.Session, err
	})
}

// Wait returns a session as soon as it has stopped, or as it is when timeout has passed or
// ctx ends.
func (s *Sessions) Wait(ctx context.Context, accountID, agentID, id string, timeout time.Duration) (stoa.Session, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	sub := s.hub.subscribe(id)
	defer sub.close()
	reading := context.WithoutCancel(ctx) // because the end of the wait is not a failure
	for {
		changed := sub.changed()
		got, err := s.Get(reading, accountID, agentID, id)
		if err != nil || got.Status.Stopped() {
			return got, err
		}
		for stopped, older := false, false; !stopped; {
			select {
			case <-changed:
			case <-timer.C:
				return s.Get(reading, accountID, agentID, id)
			case <-ctx.Done():
				if older {
					return s.Get(reading, accountID, agentID, id)
				}
				return got, nil
			}
			changed = sub.changed()
			events, ok := sub.since(got.LastSeq)
			stopped = !ok // because the hub does not know, read the row
			for _, e := range events {
				if e.Type == EventStatus {
					status, _ := statusOf(e)
					stopped, older = stopped || status.Stopped(), true
				}
				got.LastSeq = e.Seq
			}
		}
	}
}

// List lists the sessions of an account, or of one agent of it; see
// [store.Work.Sessions].
func (s *Sessions) List(ctx context.Context, accountID string, f store.SessionFilter, p store.Page) (list []stoa.Session, next store.Cursor, err error) {
	err = s.store.Read(ctx, func(tx *store.Tx) error {
		if f.AgentID != "" {
			if _, err := tx.Setup().Agent(ctx, accountID, f.AgentID); err != nil {
				return err
			}
		}
		list, next, err = tx.Work().Sessions(ctx, accountID, f, p)
		return err
	})
	return list, next, err
}

// Turns lists a session's turns by number, or newest first with desc. after is the number of
// the last turn that the caller has.
func (s *Sessions) Turns(ctx context.Context, accountID, agentID, id string, after int64, limit int, desc bool) (list []stoa.Turn, more bool, err error) {
	err = s.read(ctx, accountID, agentID, id, func(tx *store.Tx, _ stoa.Session) (err error) {
		list, more, err = tx.Work().Turns(ctx, id, after, limit, desc)
		return err
	})
	return list, more, err
}

// A StepRead is a step with what it added to the conversation: the message of the user in the first step of
// a turn, then the results of the step before.
type StepRead struct {
	stoa.Step
	Message string // text in the first step
	Results []stoa.ToolResult
	Receipt *store.Receipt
}

// Step reads the step of a session with that id (see [stoa.StepID]), or fails with CodeNotFound.
func (s *Sessions) Step(ctx context.Context, accountID, agentID, id, stepID string) (out StepRead, err error) {
	err = s.read(ctx, accountID, agentID, id, func(tx *store.Tx, _ stoa.Session) error {
		turn, number := stepNumbers(id, stepID)
		steps, err := tx.Work().Steps(ctx, id, turn)
		i := slices.IndexFunc(steps, func(st stoa.Step) bool { return st.Number == number })
		if err == nil && i < 0 {
			err = stoa.Errorf(stoa.CodeNotFound, "The session has no such completed model call.")
		}
		if err != nil {
			return err
		}
		if out.Step = steps[i]; i > 0 {
			for _, r := range steps[i-1].Results {
				if r != nil {
					out.Results = append(out.Results, *r)
				}
			}
		} else if out.Message, err = messageOf(ctx, tx, id, turn); err != nil {
			return err
		}
		r, err := tx.Books().Receipt(ctx, accountID, stepID)
		if stoa.CodeOf(err) == stoa.CodeNotFound {
			return nil
		}
		out.Receipt = &r
		return err
	})
	return out, err
}

func stepNumbers(sessionID, stepID string) (turn, number int64) {
	rest, _ := strings.CutPrefix(stepID, sessionID+".")
	t, n, _ := strings.Cut(rest, ".")
	turn, _ = strconv.ParseInt(t, 10, 64)
	number, _ = strconv.ParseInt(n, 10, 64)
	if stoa.StepID(sessionID, turn, number) != stepID {
		return 0, 0
	}
	return turn, number
}

func messageOf(ctx context.Context, tx *store.Tx, sessionID string, turn int64) (string, error) {
	turns, _, err := tx.Work().Turns(ctx, sessionID, turn-1, 1, false)
	if err != nil || len(turns) == 0 || turns[0].Number != turn {
		return "", err
	}
	m, _, err := tx.Work().Message(ctx, sessionID, turns[0].MessageID)
	return m.Text, err
}

// Messages lists a session's messages in order, or newest first with desc. after is the Place
// of the last message that the caller has.
func (s *Sessions) Messages(ctx context.Context, accountID, agentID, id string, after int64, limit int, desc bool) (list []store.MessageRow, more bool, err error) {
	err = s.read(ctx, accountID, agentID, id, func(tx *store.Tx, _ stoa.Session) (err error) {
		list, more, err = tx.Work().Messages(ctx, id, after, limit, desc)
		return err
	})
	return list, more, err
}

// Sources lists the sources available to the answers of a session: at most limit passages of
// the turns from first to last.
func (s *Sessions) Sources(ctx context.Context, accountID, agentID, id string, first, last int64, limit int) (list []stoa.Source, err error) {
	err = s.read(ctx, accountID, agentID, id, func(tx *store.Tx, _ stoa.Session) (err error) {
		list, err = tx.Work().Sources(ctx, id, first, last, limit)
		return err
	})
	return list, err
}

// Receipts lists the charges of a session's steps.
func (s *Sessions) Receipts(ctx context.Context, accountID, agentID, id string, p store.Page) (list []store.Receipt, more bool, err error) {
	err = s.read(ctx, accountID, agentID, id, func(tx *store.Tx, _ stoa.Session) (err error) {
		list, more, err = tx.Work().SessionReceipts(ctx, accountID, id, p)
		return err
	})
	return list, more, err
}
