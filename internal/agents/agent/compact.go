package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"stoa/internal/agents/session"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// A prompt grows by what each turn adds, so that a vendor can read its beginning from the cache.
// When the estimated input of a step exceeds a part of the model's window, the beginning is
// replaced by a summary: one call with the same beginning, which is read from the cache, and an
// order to summarize it. If that fails or frees too little, the oldest turns are left out instead.
// Both happen in one large step, since a request that begins differently from the one before is
// not read from the cache.
//
// Parts of the window are in percent.
const (
	leaveOutAt = 70 // above which turns are left out if sessions are not summarized
	compactTo  = 50 // to which turns are left out
	minFreed   = 20 // share of the input that a summary must free
	minGrowth  = 20 // minimum growth between compactions, so that a useless one is not repeated soon
	keptTurns  = 2  // newest earlier turns, or steps of a long turn, that stay as they are
)

const (
	maxCallLines = 50
	maxCallText  = 200 // characters of arguments
)

const callsText = "\n\nTool calls of that part, the oldest first. %s reads a result that has a callId:\n"

// compact makes room in the model's window before a step if its input exceeds the configured part: by a summary, or by leaving out the oldest turns.
func (w *Worker) compact(ctx context.Context, t *turn) error {
	p := t.prompt
	size, percent := p.build().EstimateInput(), t.window/100
	at := int64(cmp.Or(t.compactAt, leaveOutAt))
	if size <= at*percent || t.compacted {
		return nil
	}
	if last := p.newest; last != nil && (last.Turn == t.row.Turn.Number || size < last.After+minGrowth*percent) {
		return nil
	}
	t.compacted = true
	most := min(compactTo, at-minGrowth) * percent
	if t.compactAt > 0 {
		if done, err := w.summarize(ctx, t, size, most); err != nil || done {
			return err
		}
	}
	p.leaveOut(size, most)
	return nil
}

// A cut is the part of a prompt that is summarized: numbers of its earlier turns and of the steps of this turn.
type cut struct{ past, steps int }

// toSummarize returns the part to summarize, and its estimated size in tokens: the earlier turns
// except the newest or, if these are not large enough, all of them and the steps of this turn
// except the newest.
func (p *prompt) toSummarize(least int64) (c cut, freed int64) {
	for c.past < len(p.past)-keptTurns {
		freed += p.past[c.past].size
		c.past++
	}
	if freed >= least {
		return c, freed
	}
	for ; c.past < len(p.past); c.past++ {
		freed += p.past[c.past].size
	}
	for c.steps = p.skipped(); c.steps < len(p.steps)-keptTurns; c.steps++ {
		s := &p.steps[c.steps]
		freed += stoa.Call{Messages: appendStep(nil, s, pastResults(s))}.EstimateInput()
	}
	return c, freed
}

// summarize replaces the beginning of the prompt, whose input has size tokens, by a summary. It
// reports whether it did; otherwise the prompt will be cut to most tokens. It records the charge,
// the summary and the new beginning in one transaction.
func (w *Worker) summarize(ctx context.Context, t *turn, size, most int64) (done bool, err error) {
	p := t.prompt
	least := size * minFreed / 100
	c, freed := p.toSummarize(least)
	if freed < least || c == (cut{}) {
		return false, nil
	}
	if err := w.refresh(ctx, t); err != nil {
		return false, err
	}
	req, err := w.begin(t, 0)
	if err != nil {
		return false, nil // because the step reports it
	}
	req.Call = p.summaryCall(c, t.window)
	if req.MaxCredits > 0 { // because the rest is for the turn's own steps
		req.MaxCredits = max(req.MaxCredits/2, 1)
	}
	stream, err := w.cfg.Gateway.Respond(ctx, *t.caller, req)
	if err != nil {
		return false, context.Cause(ctx)
	}
	defer stream.Close()
	text, broken := "", error(nil)
	for ev, err := range stream.Events(ctx) {
		switch {
		case err != nil:
			broken = err
		case ev.Kind == stoa.Started:
			text = ""
		case ev.Kind == stoa.Delta:
			text += ev.Text
		}
	}
	row := store.Compaction{Turn: t.row.Turn.Number, From: p.from, Steps: p.skip, TokensBefore: size, After: size}
	settle := stream.Settle
	switch text = strings.TrimSpace(text); {
	case broken != nil && context.Cause(ctx) == nil:
		return false, nil
	case broken != nil: // the turn was cancelled: what was received is charged
		ctx, settle = context.WithoutCancel(ctx), stream.Abandon
	case text != "" && freed-stoa.EstimateTokens(len(text)) >= least:
		row.Text = stoa.Storable(text)
		if row.Calls, err = w.callLines(ctx, t, c); err != nil {
			return false, err
		}
		row.From, row.Steps = t.row.Turn.Number, int64(c.steps)
		if c.past < len(p.past) {
			row.From, row.Steps = p.past[c.past].number, 0
		}
		row.After = size - freed + stoa.EstimateTokens(len(text)+len(row.Calls))
	default:
		row.After = min(size, most)
	}
	_, err = settle(ctx, func(ctx context.Context, tx *store.Tx) error {
		ch, err := w.sessions.LockOwned(ctx, tx, t.run.lease)
		if err != nil {
			return err
		}
		ch.RecordCompaction(row)
		if err := ch.Save(); err != nil {
			return err
		}
		t.row = *ch.Row
		return nil
	})
	if err != nil {
		return false, err
	}
	if broken != nil {
		return false, broken
	}
	if p.newest = &row; row.Text == "" {
		return false, nil
	}
	if p.view = nil; p.memory != nil {
		p.setMemory(*p.memory)
	}
	p.summary, p.past, p.from, p.skip = &row, p.past[c.past:], row.From, row.Steps
	return true, w.readDrive(ctx, p, t.drive, t.window)
}

// refresh reads the caller of the next call again, after it has checked the lease.
func (w *Worker) refresh(ctx context.Context, t *turn) error {
	return w.store.Write(ctx, func(tx *store.Tx) error {
		ch, err := w.sessions.LockOwned(ctx, tx, t.run.lease)
		if err != nil {
			return err
		}
		c, err := w.caller(ctx, tx, ch.Row)
		if err == nil {
			t.caller, t.row = &c, *ch.Row
		}
		return err
	})
}

// summaryCall returns the call that summarizes a part of the prompt. It begins as the prompt
// does, so that a vendor reads it from the cache, and ends with the order. Only the format of answers is
// left out, since a summary is a text. If the part does not
// fit into the window, its oldest turns are left out.
func (p *prompt) summaryCall(c cut, window int64) stoa.Call {
	q := *p
	q.past, q.steps, q.final = p.past[:c.past], p.steps[:c.steps], ""
	q.reply = nil
	if c.past < len(p.past) || c.steps <= p.skipped() {
		q.message, q.steps = stoa.Message{}, nil
	}
	call := q.build()
	for size := call.EstimateInput(); size > window && len(q.past) > 1; call = q.build() {
		size -= q.past[0].size
		q.past, q.from, q.skip = q.past[1:], q.past[1].number, 0
	}
	if over := call.EstimateInput() - window; over > 0 {
		q.shorten(&call, over)
	}
	eachImage(&call, func(p *stoa.Part) error { // because a summary does not need them
		leaveOut(p, passedText)
		return nil
	})
	call.Messages = append(call.Messages, stoa.TextMessage(stoa.RoleUser, stoa.SummarizeText))
	call.MaxOutputTokens = stoa.SummaryTokens
	return call
}

func (w *Worker) callLines(ctx context.Context, t *turn, c cut) (string, error) {
	p := t.prompt
	var lines []string // the newest first
	err := w.store.Read(ctx, func(tx *store.Tx) error {
		lines = nil
		add := func(steps []stoa.Step) error {
			for _, s := range slices.Backward(steps) {
				if len(s.Calls) == 0 || len(lines) >= maxCallLines {
					continue
				}
				var external []stoa.ExternalCall
				if t.row.ToolCalls > 0 {
					var err error
					if external, err = tx.Work().StepCalls(ctx, t.row.ID, s.Turn, s.Number); err != nil {
						return err
					}
				}
				for place := range slices.Backward(s.Calls) {
					lines = append(lines, callLine(&s, place, external))
				}
			}
			return nil
		}
		err := add(p.steps[min(p.skipped(), c.steps):c.steps])
		for _, past := range slices.Backward(p.past[:c.past]) {
			if err == nil {
				err = add(past.steps)
			}
		}
		return err
	})
	if p.summary != nil && p.summary.Calls != "" {
		before := strings.Split(p.summary.Calls, "\n")
		slices.Reverse(before)
		lines = append(lines, before...)
	}
	lines = lines[:min(len(lines), maxCallLines)]
	slices.Reverse(lines)
	return strings.Join(lines, "\n"), err
}

func callLine(s *stoa.Step, place int, external []stoa.ExternalCall) string {
	call := s.Calls[place].Meant()
	line := fmt.Sprintf("turn %d: %s %s", s.Turn, call.Name, session.CutRunes(strings.Join(strings.Fields(call.Arguments), " "), maxCallText))
	if r := s.Results[place]; r != nil {
		line += fmt.Sprintf(" → %d bytes", len(r.Content))
	}
	for _, e := range external {
		if e.Place == place {
			line += fmt.Sprintf(", %s, callId %q", outcomeText(e), e.ID)
		}
	}
	return line
}

func outcomeText(c stoa.ExternalCall) string {
	if c.Resolution == "" {
		return string(c.Outcome)
	}
	return string(c.Outcome) + ", found to be " + c.Resolution
}
