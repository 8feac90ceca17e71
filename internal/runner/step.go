package runner

import (
	"context"
	"strings"
	"sync"
	"time"

	"stoa/internal/catalog"
	"stoa/internal/gateway"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

// step makes one model call and records it together with its charge. It tells
// whether the turn has come to its end, which is written by then.
func (r *Runner) step(ctx context.Context, one *run, p *prompt, number int64) (done bool, err error) {
	sc, row, err := r.beginStep(ctx, one, p, number)
	if err != nil {
		return false, err
	}
	// Asked anew for each step: a plan may change, an account be suspended.
	caller, err := r.caller(ctx, row.AccountID, row.KeyID)
	if err != nil {
		return false, err
	}
	if caller.Account.Suspended {
		return false, &failure{Failure: stoa.Failure{Code: stoa.CodeSuspended, Message: "The account is suspended."}}
	}
	req := gateway.Request{
		ID: sc.id, Model: p.model, Call: r.call(p, caller.Plan),
		EndUser: row.ExternalUserID, SpaceID: row.SpaceID, AgentID: row.AgentID, SessionID: row.ID,
	}
	if limit := row.Limits.MaxCredits; limit > 0 {
		if req.MaxCredits = limit - row.Turn.Spent; req.MaxCredits <= 0 {
			return false, &failure{Failure: stoa.Failure{Code: codeCreditLimit, Message: "The turn has used up the credits that its limit allows. Raise the limit, or ask for less at once."}}
		}
	}
	if row.MaxSpend > 0 {
		left := row.MaxSpend - row.Spent
		if left <= 0 {
			return false, &failure{Failure: stoa.Failure{Code: codeCreditLimit, Message: "The chat has used up the credits that its embed allows. Make another embed for it."}}
		}
		if req.MaxCredits == 0 || left < req.MaxCredits {
			req.MaxCredits = left
		}
	}
	stream, err := r.cfg.Gateway.Respond(ctx, caller, req)
	if err != nil {
		return false, err
	}
	defer stream.Close()

	st := stoa.Step{SessionID: row.ID, Turn: row.Turn.Number, Number: number}
	var text strings.Builder
	var failed error
	for ev, err := range stream.Events(ctx) {
		if err != nil {
			failed = err
			break
		}
		switch ev.Kind {
		case stoa.Started: // an attempt before it came to nothing
			st.Calls = nil
		case stoa.Delta:
			text.WriteString(ev.Text)
			sc.add(ev.Text)
		case stoa.Called:
			st.Calls = append(st.Calls, ev.Call)
		case stoa.Finished:
			st.Stop, st.State = ev.Stop, ev.State
		}
	}
	sc.stop()
	if sc.failed() != nil { // the deltas could not be written: lease or store is gone
		return false, sc.failed()
	}
	st.Text = text.String()
	if failed != nil {
		return r.breakOff(ctx, one, sc, stream, st, failed)
	}
	_, err = stream.Settle(ctx, func(ctx context.Context, tx *store.Tx) error {
		done = false
		ch, err := r.mineIn(ctx, tx, one)
		if err != nil {
			return err
		}
		ch.record(sc, st)
		switch {
		case !ch.row.CancelAt.IsZero():
			ch.finish(stoa.SessionCancelled, "")
			done = true
		case len(st.Calls) == 0:
			ch.reply(sc, st)
			done = true
		}
		return ch.save()
	})
	if err != nil {
		return false, err
	}
	p.steps = append(p.steps, st)
	return done, nil
}

// breakOff ends a step that got no end of its own. A turn that was cancelled, or
// whose time is over, is charged for what had been made by then; any other
// failure is free.
func (r *Runner) breakOff(ctx context.Context, one *run, sc *scribe, stream *gateway.Stream, st stoa.Step, why error) (bool, error) {
	cause := context.Cause(ctx)
	if cause != errCancelled && cause != errDeadline {
		if cause == nil {
			cause = why
		}
		return false, cause
	}
	st.Stop, st.Calls = "", nil
	charge, err := stream.Abandon(context.WithoutCancel(ctx), func(ctx context.Context, tx *store.Tx) error {
		ch, err := r.mineIn(ctx, tx, one)
		if err != nil {
			return err
		}
		ch.record(sc, st)
		if cause == errCancelled || !ch.row.CancelAt.IsZero() {
			ch.finish(stoa.SessionCancelled, "")
		} else {
			ch.timeout()
		}
		return ch.save()
	})
	if err != nil || charge.ID == "" {
		return false, cause // nothing was written
	}
	return true, nil
}

// record writes a step, what it has said and what it cost. It runs after the
// charge in the same transaction.
func (c *change) record(sc *scribe, st stoa.Step) {
	c.do(func() error { return c.tx.InsertStep(c.ctx, st) })
	c.do(func() error {
		charge, _, err := c.tx.ChargeByID(c.ctx, sc.id)
		if err != nil {
			return err
		}
		u := charge.Usage
		c.row.Usage.InputTokens += u.InputTokens
		c.row.Usage.OutputTokens += u.OutputTokens
		c.row.Spent += charge.Amount
		c.row.Turn.Spent += charge.Amount
		c.row.Steps++
		c.row.Strikes = 0
		c.row.ModelServed, c.row.Fallback = charge.Served, charge.Reason == catalog.ReasonPlan
		sc.finishMessage(c, st)
		micro := int64(charge.Amount)
		c.event(EventStepDone, StepData{
			StepID: sc.id, Turn: st.Turn, Step: st.Number, Model: charge.Served, Stop: string(st.Stop),
			Usage: &UsageData{u.InputTokens, u.OutputTokens, u.Total()}, CreditsMicro: &micro,
		})
		return c.err
	})
}

// reply ends the turn with what its last step has said.
func (c *change) reply(sc *scribe, st stoa.Step) {
	reason := ""
	switch st.Stop {
	case stoa.StopLength:
		reason = reasonLength
	case stoa.StopContentFilter:
		if st.Text == "" {
			c.fail(stoa.Failure{Code: codeFilter, Message: "The model's provider withheld the answer."})
			return
		}
		reason = reasonFilter
	}
	c.row.ReplyID, c.row.Reply = sc.messageID, st.Text
	c.finish(stoa.SessionCompleted, reason)
}

// beginStep makes the step known. It is also the last look at the lease before
// money is spent.
func (r *Runner) beginStep(ctx context.Context, one *run, p *prompt, number int64) (*scribe, store.SessionRow, error) {
	var sc *scribe
	var row store.SessionRow
	err := r.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		ch, err := r.mineIn(ctx, tx, one)
		if err != nil {
			return err
		}
		turn := ch.row.Turn.Number
		sc = &scribe{r: r, one: one, id: stoa.StepID(one.sessionID, turn, number), turn: turn, step: number}
		m, found, err := tx.StepMessage(ctx, one.sessionID, turn, number)
		if err != nil {
			return err
		}
		if found { // an attempt before this one has begun to write it
			sc.messageID, sc.created, sc.stale = m.ID, true, true
		}
		ch.event(EventStepStarted, StepData{StepID: sc.id, Turn: turn, Step: number, Model: p.model})
		if !p.told { // once for each time the drive was read
			var list []stoa.Source
			for _, s := range p.knowledge.Sources {
				list = append(list, stoa.Source{Path: s.Path, SHA256: s.SHA256, FromLine: s.FirstLine, ToLine: s.LastLine, Via: "context"})
			}
			ch.sources(sc.id, list)
		}
		if err := ch.save(); err != nil {
			return err
		}
		row = *ch.row
		return nil
	})
	p.told = p.told || err == nil
	return sc, row, err
}

// deltaEvery is the shortest time between two stored deltas of a session while
// its text arrives. With the rest of a step, which comes when the step ends,
// that makes at most four in a second.
const deltaEvery = time.Second / 3

// firstDelta is how long the first piece of a text waits for more: a short reply
// then needs no delta of its own.
const firstDelta = 20 * time.Millisecond

// scribe writes a step's text into the log while it arrives.
type scribe struct {
	r          *Runner
	one        *run
	id         string // of the step
	turn, step int64

	writing sync.Mutex // held while a delta is written

	mu        sync.Mutex
	messageID string
	created   bool // the message is known to readers
	stale     bool // readers may have text of an attempt before
	pending   []byte
	offset    int // characters written by this attempt
	timer     *time.Timer
	stopped   bool
	err       error
}

// add takes a piece of text, to be written soon.
func (s *scribe) add(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = append(s.pending, text...)
	if s.timer == nil && !s.stopped && s.err == nil {
		s.timer = time.AfterFunc(max(firstDelta, deltaEvery-time.Since(s.one.lastDelta)), s.flush)
	}
}

// flush writes what is pending.
func (s *scribe) flush() {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	text := string(s.pending)
	s.pending, s.timer = nil, nil
	s.one.lastDelta = time.Now()
	skip := s.stopped || text == ""
	if s.stopped {
		s.pending = []byte(text) // the step's own transaction will have it
	}
	s.mu.Unlock()
	if skip {
		return
	}
	err := s.write(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.err = err
		s.one.cancel(err) // nothing more can be said: stop the call
	}
}

// write commits one delta, and the message's beginning before the first.
func (s *scribe) write(text string) error {
	ctx := context.Background()
	var created bool
	var id string
	err := s.r.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		s.mu.Lock()
		created, id = s.created, s.messageID
		offset := s.offset
		s.mu.Unlock()
		ch := &change{r: s.r, ctx: ctx, tx: tx, row: &store.SessionRow{Session: stoa.Session{ID: s.one.sessionID}}}
		event := func(typ string, data any) {
			ch.do(func() error {
				seq, ok, err := tx.NextSeq(ctx, s.one.accountID, s.one.sessionID, s.r.id, s.one.fence)
				if err == nil && !ok {
					err = errLost
				}
				ch.row.LastSeq = seq - 1
				return err
			})
			ch.event(typ, data)
		}
		if !created {
			m := stoa.SessionMessage{
				ID: stoa.NewID("msg"), SessionID: s.one.sessionID, Turn: s.turn, Step: s.step,
				Role: stoa.RoleAssistant, Kind: stoa.KindReply, Status: "in_progress",
			}
			id = m.ID
			event(EventMessageCreated, messageData(m, false))
			ch.do(func() error {
				return tx.InsertMessage(ctx, store.MessageRow{SessionMessage: m, FirstSeq: ch.row.LastSeq})
			})
		}
		event(EventDelta, DeltaData{MessageID: id, Offset: offset, Text: text})
		if ch.err != nil {
			return ch.err
		}
		events := ch.events
		tx.AfterCommit(func() { s.r.hub.publish(s.one.sessionID, events) })
		return nil
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.created, s.messageID = true, id
	s.offset += runeCount(text)
	return nil
}

// stop ends the writing of deltas; what is pending stays for finishMessage.
func (s *scribe) stop() {
	s.mu.Lock()
	s.stopped = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.writing.Lock()
	//lint:ignore SA2001 it waits for a delta that is being written
	s.writing.Unlock()
}

func (s *scribe) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// finishMessage writes the rest of the step's text. It may run more than once,
// and only after stop.
func (s *scribe) finishMessage(c *change, st stoa.Step) {
	if st.Text == "" && !s.created && (len(st.Calls) > 0 || st.Stop == "") {
		return // nothing was said; only an answer may be empty
	}
	m := stoa.SessionMessage{
		ID: s.messageID, SessionID: st.SessionID, Turn: st.Turn, Step: st.Number,
		Role: stoa.RoleAssistant, Kind: stoa.KindReply, Status: "completed", Text: st.Text,
	}
	if len(st.Calls) > 0 {
		m.Kind = stoa.KindComment
	}
	if !s.created {
		if m.ID == "" {
			m.ID = stoa.NewID("msg")
			s.messageID = m.ID
		}
		begun := m
		begun.Status = "in_progress"
		c.event(EventMessageCreated, messageData(begun, false))
		c.do(func() error {
			return c.tx.InsertMessage(c.ctx, store.MessageRow{SessionMessage: begun, FirstSeq: c.row.LastSeq})
		})
	}
	if len(s.pending) > 0 || s.stale && s.offset == 0 {
		c.event(EventDelta, DeltaData{MessageID: m.ID, Offset: s.offset, Text: string(s.pending)})
	}
	if st.Stop == "" {
		return // broken off: finish closes the message, with the turn's status
	}
	c.do(func() error { return c.tx.UpdateMessage(c.ctx, m) })
	c.event(EventMessageDone, messageData(m, true))
}
