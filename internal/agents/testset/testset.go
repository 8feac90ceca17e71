// Package testset runs test sets of agents: it starts a session for each question and side of a run, and judges the replies.
//
// All durable state is in the rows of runs and results. A session begins in the transaction that writes its id into the result, so
// that a crash between any two lines neither loses nor repeats a question; several nodes may run a [Runner] on the same store. It
// changes sessions only through package session. Start at [Runner.Run] and [Runner.step].
package testset

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"stoa/internal/agents/session"
	"stoa/internal/base/auth"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

const (
	atOnce   = 4           // sessions of a run
	pollRuns = time.Second // while runs are in progress, since their sessions may run on other nodes
	page     = 100         // runs in a read
)

// A Runner runs test sets.
type Runner struct {
	sessions *session.Sessions
	store    *store.Store
	shared   bool
	log      *slog.Logger
	wakeup   chan struct{}
}

// New returns a runner; shared means that other processes write to the same store. It starts no goroutine.
func New(sessions *session.Sessions, shared bool, log *slog.Logger) *Runner {
	return &Runner{sessions: sessions, store: sessions.Store(), shared: shared, log: log, wakeup: make(chan struct{}, 1)}
}

// Wake makes [Runner.Run] of this process look for a new or changed run.
func (r *Runner) Wake() {
	select {
	case r.wakeup <- struct{}{}:
	default:
	}
}

// Run works on runs until ctx ends.
func (r *Runner) Run(ctx context.Context) error {
	stoa.Poll(ctx, r.wakeup, r.sessions.TestsChanged(), func() time.Duration {
		running, err := r.Tick(ctx)
		if err != nil && ctx.Err() == nil {
			r.log.Error("the runs of test sets could not be continued; they are tried again", "error", err)
		}
		if running || err != nil {
			return pollRuns
		}
		return stoa.PollEvery(r.shared)
	})
	return nil
}

// Tick continues all runs that are in progress, and reports whether there are any.
func (r *Runner) Tick(ctx context.Context) (running bool, err error) {
	for after, more := "", true; more && err == nil; {
		var refs []store.Ref
		refs, err = store.Read(ctx, r.store, func(tx *store.Tx) ([]store.Ref, error) { return tx.Work().RunningTests(ctx, after, page) })
		more = len(refs) == page
		for _, ref := range refs {
			running, after = true, ref.ID
			// A run that cannot be continued does not affect the others.
			if err := r.store.Write(ctx, func(tx *store.Tx) error { return r.step(ctx, tx, ref) }); err != nil && ctx.Err() == nil {
				r.log.Error("a run of a test set could not be continued; it is tried again", "run", ref.ID, "error", err)
			}
		}
	}
	return running, err
}

// step does what a run needs now: it judges the sessions that have stopped, begins others, and ends the run.
func (r *Runner) step(ctx context.Context, tx *store.Tx, ref store.Ref) error {
	run, err := tx.Work().TestRun(ctx, ref.AccountID, "", ref.ID, true)
	if stoa.CodeOf(err) == stoa.CodeNotFound || err == nil && run.Status != stoa.TestRunning { // another node was faster
		return nil
	}
	if err != nil {
		return err
	}
	s := &step{Runner: r, tx: tx, run: run}
	results, err := tx.Work().TestResults(ctx, run)
	if err == nil && run.Reason == "" {
		s.run.Reason, err = s.obstacle(ctx)
	}
	for i := range results {
		if err == nil {
			err = s.settle(ctx, &results[i])
		}
	}
	for i := range results {
		if err == nil {
			err = s.begin(ctx, &results[i])
		}
	}
	if err != nil {
		return err
	}
	if s.running == 0 && (s.pending == 0 || s.run.Reason != "") {
		if err := tx.Work().SkipTestResults(ctx, run); err != nil {
			return err
		}
		s.run.FinishedAt, s.run.Status = tx.Now, stoa.TestCompleted
		switch {
		case s.run.Reason == stoa.TestReasonCancelled:
			s.run.Status = stoa.TestCancelled
		case s.run.Reason != "":
			s.run.Status = stoa.TestStopped
		}
	}
	if s.run.Reason == run.Reason && s.run.Status == run.Status {
		return nil
	}
	return tx.Work().SaveTestRun(ctx, &s.run)
}

// A step is the state of one transaction of a run.
type step struct {
	*Runner
	tx      *store.Tx
	run     stoa.TestRun
	running int
	pending int
	taken   stoa.Credits // spent by the judged sessions, and the caps of those that run
	full    bool         // no other session can begin now
}

func (s *step) caller() stoa.Caller {
	return stoa.Caller{Account: stoa.Account{ID: s.run.AccountID}, Key: stoa.Key{ID: s.run.KeyID}}
}

// obstacle returns the reason why a run must stop, or "".
func (s *step) obstacle(ctx context.Context) (string, error) {
	account, err := s.tx.Books().Account(ctx, s.run.AccountID)
	if err != nil || account.Suspended {
		return stoa.TestReasonAccount, err
	}
	ended, err := auth.EndsWithKey(ctx, s.tx, s.run.AccountID, s.run.KeyID, s.tx.Now)
	if err != nil || !ended {
		return "", err
	}
	return stoa.TestReasonKey, nil
}

// settle judges a result whose session has stopped.
func (s *step) settle(ctx context.Context, r *stoa.TestResult) error {
	if r.Status != stoa.ResultRunning {
		s.taken += r.Credits
		return nil
	}
	row, err := s.tx.Work().Session(ctx, s.run.AccountID, "", r.SessionID)
	if stoa.CodeOf(err) == stoa.CodeSessionNotFound {
		r.SessionID = ""
		return s.end(ctx, r, "The session was deleted.")
	}
	if err != nil {
		return err
	}
	stops := s.run.Reason != "" && s.run.Reason != stoa.TestReasonCredits
	if row.Status == stoa.SessionWaiting || stops && !row.Status.Stopped() {
		why := waiting(row.Session)
		ended, err := s.sessions.CancelIn(ctx, s.tx, s.caller(), s.run.AgentID, r.SessionID)
		if err != nil || !ended.Status.Stopped() { // its worker is about to stop
			s.running, s.taken = s.running+1, s.taken+r.Cap
			return err
		}
		r.Credits, r.Milliseconds = ended.Spent, elapsed(ended)
		return s.end(ctx, r, why)
	}
	if !row.Status.Stopped() {
		s.running, s.taken = s.running+1, s.taken+r.Cap
		return nil
	}
	r.Credits, r.Milliseconds = row.Spent, elapsed(row.Session)
	switch {
	case row.Status == stoa.SessionCancelled:
		return s.end(ctx, r, "The session was cancelled.")
	case row.Status == stoa.SessionFailed && row.Turn.Failure != nil:
		return s.end(ctx, r, string(row.Turn.Failure.Code)+": "+row.Turn.Failure.Message)
	case row.Status == stoa.SessionFailed:
		return s.end(ctx, r, "The session failed.")
	}
	r.Reply = session.CutRunes(row.Reply, replyStored)
	r.Reasons = judge(s.run.Questions[r.Number-1], row.Reply)
	r.Status, r.Verdict = stoa.ResultDone, stoa.VerdictPass
	if len(r.Reasons) > 0 {
		r.Verdict = stoa.VerdictFail
	}
	s.taken += r.Credits
	return s.tx.Work().SaveTestResult(ctx, r)
}

// waiting says what a session waits for.
func waiting(s stoa.Session) string {
	if s.Pending == nil {
		return "The session was cancelled."
	}
	what, known := map[string]string{
		stoa.InputQuestion: "an answer to its question: " + s.Pending.Prompt,
		stoa.InputChoice:   "a choice: " + s.Pending.Prompt,
	}[s.Pending.Kind]
	switch {
	case known:
	case len(s.Pending.Calls) > 0:
		what = fmt.Sprintf("an approval or a program, because of the tool %s", s.Pending.Calls[0].Tool)
	default:
		what = "an approval or a program"
	}
	return "The agent waits for " + what
}

func elapsed(s stoa.Session) int64 {
	if s.StartedAt.IsZero() || s.FinishedAt.Before(s.StartedAt) {
		return 0
	}
	return s.FinishedAt.Sub(s.StartedAt).Milliseconds()
}

// end records that a result has no reply to judge.
func (s *step) end(ctx context.Context, r *stoa.TestResult, why string) error {
	r.Status, r.Verdict, r.Reasons = stoa.ResultDone, stoa.VerdictError, []string{reason(why)}
	s.taken += r.Credits
	return s.tx.Work().SaveTestResult(ctx, r)
}

// begin starts the session of a pending result if there is a place for it.
func (s *step) begin(ctx context.Context, r *stoa.TestResult) error {
	if r.Status != stoa.ResultPending {
		return nil
	}
	s.pending++
	if s.run.Reason != "" || s.full || s.running >= atOnce {
		return nil
	}
	req := session.StartRequest{
		AgentID: s.run.AgentID, Message: s.run.Questions[r.Number-1].Message, Title: s.run.Name, Version: s.run.Version,
		Trigger: stoa.Trigger{Type: stoa.TriggerTest, ID: s.run.ID},
	}
	switch {
	case r.Side == 1 && s.run.Draft != nil:
		req.Draft = func(a *stoa.Agent) error {
			a.AgentSettings = *s.run.Draft
			return nil
		}
	case r.Side == 1:
		req.Version = s.run.CandidateVersion
	}
	limit, err := s.limit(ctx, req.Version, r.Side)
	if err != nil {
		return err
	}
	if req.Limits.MaxCredits = limit; s.taken+limit > s.run.MaxCredits {
		s.full = true
		if s.running == 0 { // because the sessions that run may cost less than their caps
			s.run.Reason = stoa.TestReasonCredits
		}
		return nil
	}
	var began stoa.Session
	err = s.tx.Savepoint(ctx, func() (err error) {
		began, err = s.sessions.Start(ctx, s.tx, s.caller(), req)
		return err
	})
	switch code := stoa.CodeOf(err); {
	case code == stoa.CodeTooManySessions:
		s.full = true
		return nil
	case code == stoa.CodeInternal:
		return err
	case err != nil:
		s.pending--
		return s.end(ctx, r, stoa.AsError(err).Message)
	}
	s.pending--
	s.running++
	s.taken += limit
	r.Status, r.SessionID, r.Cap = stoa.ResultRunning, began.ID, limit
	return s.tx.Work().SaveTestResult(ctx, r)
}

// limit returns what a question may cost: the limit of its side per turn, at most a quarter of that of the run.
func (s *step) limit(ctx context.Context, version int64, side int) (stoa.Credits, error) {
	own := stoa.TurnLimits{MaxCredits: max(1, s.run.MaxCredits/atOnce)}
	if side == 1 && s.run.Draft != nil {
		return s.sessions.TurnLimits(own, s.run.Draft.Limits).MaxCredits, nil
	}
	v, err := s.tx.Setup().AgentVersion(ctx, s.run.AccountID, s.run.AgentID, version)
	if stoa.CodeOf(err) == stoa.CodeNotFound { // the start of the session says so
		return own.MaxCredits, nil
	}
	return s.sessions.TurnLimits(own, v.Limits).MaxCredits, err
}

// Cancel stops a run of a test set: its sessions in progress are cancelled, and no others begin. It does nothing to a run that has ended.
func (r *Runner) Cancel(ctx context.Context, tx *store.Tx, c stoa.Caller, set stoa.TestSet, id string) (stoa.TestRun, error) {
	run, err := tx.Work().TestRun(ctx, set.AccountID, set.ID, id, true)
	if err != nil || run.Status != stoa.TestRunning || run.Reason == stoa.TestReasonCancelled {
		return run, err
	}
	results, err := tx.Work().TestResults(ctx, run)
	if err != nil {
		return run, err
	}
	for _, result := range results {
		if result.Status != stoa.ResultRunning || result.SessionID == "" {
			continue
		}
		if _, err := r.sessions.CancelIn(ctx, tx, c, run.AgentID, result.SessionID); err != nil && stoa.CodeOf(err) != stoa.CodeSessionNotFound {
			return run, err
		}
	}
	run.Reason = stoa.TestReasonCancelled
	tx.AfterCommit(r.Wake)
	return run, tx.Work().SaveTestRun(ctx, &run)
}
