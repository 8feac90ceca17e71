package sessiontest

import (
	"context"

	"stoa/internal/agents/session"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// CheckBooks compares a session with the ledger and the log: receipts equal its spending,
// with one for each recorded step and each summary, and each turn stopped once.
func (f *Fixture) CheckBooks(r *Service, s stoa.Session) {
	f.T.Helper()
	ctx := context.Background()
	var amount stoa.Credits
	ids := map[string]bool{}
	p := store.Page{Limit: 1000, Asc: true}
	receipts, more, err := r.Receipts(ctx, f.Account.ID, "", s.ID, p)
	if err != nil || more {
		f.T.Fatalf("receipts: more %v, %v", more, err)
	}
	for _, c := range receipts {
		amount += c.Amount
		ids[c.ID] = true
	}
	for _, e := range f.Events(r, s) {
		if e.Type == session.EventCompacted {
			d := Decode[session.CompactedData](f.T, e)
			if !ids[d.ReceiptID] {
				f.T.Errorf("the summary of turn %d has no receipt", d.Turn)
			}
			delete(ids, d.ReceiptID)
		}
	}
	if amount != s.Spent || len(ids) != s.Steps {
		f.T.Errorf("%s: %d receipts of %d, but it counts %d steps of %d", s.ID, len(ids), amount, s.Steps, s.Spent)
	}
	turns, _, err := r.Turns(ctx, f.Account.ID, "", s.ID, 0, 1000, false)
	if err != nil {
		f.T.Fatal(err)
	}
	steps := 0
	err = f.Store.Read(ctx, func(tx *store.Tx) error {
		for _, turn := range turns {
			list, err := tx.Work().Steps(ctx, s.ID, turn.Number)
			if err != nil {
				return err
			}
			for _, st := range list {
				steps++
				if !ids[stoa.StepID(s.ID, st.Turn, st.Number)] {
					f.T.Errorf("step %d.%d has no receipt", st.Turn, st.Number)
				}
			}
		}
		return nil
	})
	if err != nil {
		f.T.Fatal(err)
	}
	if steps != len(ids) {
		f.T.Errorf("%d steps are recorded and %d receipts", steps, len(ids))
	}
	f.checkLog(r, s, turns)
}

// checkLog replays a session's log as a reader does.
func (f *Fixture) checkLog(r *Service, s stoa.Session, turns []stoa.Turn) {
	f.T.Helper()
	stops := map[int64]int{} // final ones
	var seq int64
	joined := map[string]string{}
	var status stoa.SessionStatus = "new"
	for _, e := range f.Events(r, s) {
		seq++
		if e.Seq != seq {
			f.T.Fatalf("%s: event %d follows event %d", s.ID, e.Seq, seq-1)
		}
		switch e.Type {
		case session.EventStatus:
			d := Decode[session.StatusData](f.T, e)
			next := stoa.SessionStatus(d.Status)
			if status != "new" && !status.CanBecome(next) {
				f.T.Errorf("%s: %s became %s", s.ID, status, next)
			}
			status = next
			if next.Stopped() && next != stoa.SessionWaiting {
				stops[d.Turn]++
			}
		case session.EventDelta:
			d := Decode[session.DeltaData](f.T, e)
			have := []rune(joined[d.MessageID])
			if d.Offset > len(have) {
				f.T.Errorf("%s: a delta at %d follows %d characters", s.ID, d.Offset, len(have))
				continue
			}
			joined[d.MessageID] = string(have[:d.Offset]) + d.Text
		case session.EventMessageDone:
			d := Decode[session.MessageData](f.T, e)
			if text, streamed := joined[d.MessageID]; streamed && text != *d.Text {
				f.T.Errorf("%s: the deltas of %s give %q and it completed as %q", s.ID, d.MessageID, text, *d.Text)
			}
			joined[d.MessageID] = *d.Text
		}
	}
	if status != s.Status || s.LastSeq != seq {
		f.T.Errorf("%s: the log ends with %s at %d, the session says %s at %d", s.ID, status, seq, s.Status, s.LastSeq)
	}
	for _, turn := range turns {
		want := 0
		if turn.Status.Stopped() && turn.Status != stoa.SessionWaiting {
			want = 1
		}
		if stops[turn.Number] != want {
			f.T.Errorf("%s: turn %d is %s and stopped %d times", s.ID, turn.Number, turn.Status, stops[turn.Number])
		}
	}
	messages, _, err := r.Messages(context.Background(), f.Account.ID, "", s.ID, 0, 1000, false)
	if err != nil {
		f.T.Fatal(err)
	}
	type place struct {
		turn, step int64
		kind       string
	}
	seen := map[place]bool{}
	for _, m := range messages {
		if m.Status == "in_progress" && s.Status.Stopped() {
			f.T.Errorf("%s: message %s is still being written", s.ID, m.ID)
		}
		if text, known := joined[m.ID]; known && text != m.Text && m.Status != "in_progress" {
			f.T.Errorf("%s: message %s holds %q and its log says %q", s.ID, m.ID, m.Text, text)
		}
		if m.Role == stoa.RoleAssistant && m.Kind != stoa.KindQuestion {
			at := place{m.Turn, m.Step, "said"}
			if seen[at] {
				f.T.Errorf("%s: step %d.%d said something twice", s.ID, m.Turn, m.Step)
			}
			seen[at] = true
		}
	}
}
