package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/agents/session"
	"stoa/internal/agents/tool"
	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// Limits of a test set; the contract has those of a question.
const (
	maxTestQuestions = 200
	maxTestSetBytes  = 256 << 10
	maxTestMessage   = 8 << 10
	shownTestMessage = 200 // characters
)

func (s *Sessions) createTestSet(ctx context.Context, tx *store.Tx, in rest.Request[byID, contract.CreateTestSet]) (rest.Reply[contract.TestSet], error) {
	set := stoa.TestSet{ID: stoa.NewID("tst"), AccountID: in.Caller.Account.ID, AgentID: in.Params.ID, Name: in.Body.Name}
	var err error
	if set.Questions, err = testQuestions(in.Body.Questions); err == nil {
		err = s.checkTestSet(set)
	}
	if err == nil {
		_, err = tx.Setup().AgentForShare(ctx, set.AccountID, set.AgentID)
	}
	if err != nil {
		return rest.Reply[contract.TestSet]{}, err
	}
	set, err = tx.Work().InsertTestSet(ctx, set)
	reply := rest.Created(testSetPath(set), contractTestSet(set))
	reply.ETag = revisionETag(set.Revision)
	return reply, err
}

func testSetPath(s stoa.TestSet) string { return agentPath(s.AgentID) + "/test-sets/" + s.ID }

// testQuestions reads the questions of a body.
func testQuestions(list []contract.TestQuestion) (out []stoa.TestQuestion, err error) {
	for i, q := range list {
		t := stoa.TestQuestion{Message: q.Message, Facts: orZero(q.Facts), Absent: orZero(q.Absent)}
		at := fmt.Sprintf("questions[%d].", i)
		if len(q.Message) > maxTestMessage {
			return nil, stoa.Errorf(stoa.CodeInvalidValue, "The question has %d bytes; the maximum is %d.", len(q.Message), maxTestMessage).At(at + "message")
		}
		if t.ReplySchema, err = session.ReadReplySchema(orZero(q.ReplySchema), at+"replySchema"); err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

func (s *Sessions) checkTestSet(set stoa.TestSet) error {
	text, err := jsonx.Marshal(set.Questions)
	if err == nil && len(text) > maxTestSetBytes {
		err = stoa.Errorf(stoa.CodeInvalidValue, "The questions have %d bytes as JSON; the maximum is %d. Use several test sets.", len(text), maxTestSetBytes).At("questions")
	}
	if err != nil {
		return err
	}
	return checkLengths(lengthLimit{"name", set.Name, s.Limits.NameCharacters})
}

func (s *Sessions) listTestSets(ctx context.Context, in rest.Request[idAnd[contract.ListTestSetsParams], rest.None]) (rest.Reply[rest.Page[contract.TestSet]], error) {
	accountID, q := in.Caller.Account.ID, in.Params.Query
	p := rest.NewPager(q.Limit, q.Cursor, q.Order, "testSets", accountID, in.Params.ID, q.Q)
	return rest.ReadPageTo(ctx, s.Store, p, func(tx *store.Tx) ([]stoa.TestSet, store.Cursor, error) {
		if _, err := tx.Setup().Agent(ctx, accountID, in.Params.ID); err != nil {
			return nil, store.Cursor{}, err
		}
		return tx.Work().TestSets(ctx, accountID, in.Params.ID, q.Q, p.Page)
	}, func(set stoa.TestSet) contract.TestSet {
		out := contractTestSet(set)
		out.Questions = nil
		return out
	})
}

func agentsTestSet(ctx context.Context, tx *store.Tx, accountID, agentID, id string, lock bool) (stoa.TestSet, error) {
	if _, err := tx.Setup().Agent(ctx, accountID, agentID); err != nil {
		return stoa.TestSet{}, err
	}
	return tx.Work().TestSet(ctx, accountID, agentID, id, lock)
}

func testSetReply(set stoa.TestSet) rest.Reply[contract.TestSet] {
	return rest.Reply[contract.TestSet]{ETag: revisionETag(set.Revision), Body: contractTestSet(set)}
}

func (s *Sessions) getTestSet(ctx context.Context, tx *store.Tx, in rest.Request[bySetID, rest.None]) (rest.Reply[contract.TestSet], error) {
	set, err := agentsTestSet(ctx, tx, in.Caller.Account.ID, in.Params.ID, in.Params.SetID, false)
	return testSetReply(set), err
}

func (s *Sessions) updateTestSet(ctx context.Context, tx *store.Tx, in rest.Request[setAnd[contract.UpdateTestSetParams], contract.UpdateTestSet]) (rest.Reply[contract.TestSet], error) {
	accountID, b := in.Caller.Account.ID, in.Body
	if _, err := tx.Setup().Agent(ctx, accountID, in.Params.ID); err != nil {
		return rest.Reply[contract.TestSet]{}, err
	}
	set, err := tx.Work().EditTestSet(ctx, accountID, in.Params.ID, in.Params.SetID, func(set *stoa.TestSet) (err error) {
		if err := ifCurrent(in.Params.Query.IfMatch, set.Revision); err != nil {
			return err
		}
		if b.Name != "" { // because the contract rejects null and an empty text
			set.Name = b.Name
		}
		if len(b.Questions) > 0 {
			if set.Questions, err = testQuestions(b.Questions); err != nil {
				return err
			}
		}
		return s.checkTestSet(*set)
	})
	return testSetReply(set), err
}

func (s *Sessions) deleteTestSet(ctx context.Context, tx *store.Tx, in rest.Request[setAnd[contract.DeleteTestSetParams], rest.None]) (rest.Reply[rest.None], error) {
	set, err := agentsTestSet(ctx, tx, in.Caller.Account.ID, in.Params.ID, in.Params.SetID, true)
	if err == nil {
		err = ifCurrent(in.Params.Query.IfMatch, set.Revision)
	}
	running := ""
	if err == nil {
		running, err = tx.Work().RunningTest(ctx, set.AccountID, set.ID)
	}
	if err == nil && running != "" {
		_, err = s.Tests.Cancel(ctx, tx, in.Caller, set, running)
	}
	if err == nil {
		err = tx.Work().DeleteTestSet(ctx, set.AccountID, set.ID)
	}
	return rest.NoContent(), err
}

func (s *Sessions) runTestSet(ctx context.Context, tx *store.Tx, in rest.Request[bySetID, contract.RunTestSet]) (rest.Reply[contract.TestRun], error) {
	var none rest.Reply[contract.TestRun]
	set, err := agentsTestSet(ctx, tx, in.Caller.Account.ID, in.Params.ID, in.Params.SetID, true)
	if err != nil {
		return none, err
	}
	agent, err := tx.Setup().AgentForShare(ctx, set.AccountID, set.AgentID)
	if err != nil {
		return none, err
	}
	run := stoa.TestRun{
		ID: stoa.NewID("tsr"), AccountID: set.AccountID, AgentID: set.AgentID, SetID: set.ID, KeyID: in.Caller.Key.ID, Name: set.Name, Version: agent.Version,
		CandidateVersion: orZero(in.Body.Version), Questions: set.Questions, MaxCredits: stoa.Credits(in.Body.MaxCreditsMicro),
	}
	change, err := s.draftOf(in.Caller, in.Body.Draft)
	switch {
	case err != nil:
		return none, err
	case change != nil && run.CandidateVersion != 0:
		return none, stoa.Errorf(stoa.CodeInvalidValue, "A run compares either a draft or a version.").At("version")
	case change != nil:
		if err := change(&agent); err != nil {
			return none, err
		}
		if err := tool.CheckTools(ctx, tx, agent.AccountID, agent.SpaceID, agent.AgentSettings); err != nil {
			if e, ok := errors.AsType[*stoa.Error](err); ok && e.Param != "" {
				err = e.At("draft." + e.Param)
			}
			return none, err
		}
		run.Draft = &agent.AgentSettings
	case run.CandidateVersion != 0:
		if _, err := tx.Setup().AgentVersion(ctx, set.AccountID, set.AgentID, run.CandidateVersion); err != nil {
			return none, err
		}
	}
	if run, err = tx.Work().InsertTestRun(ctx, run); err != nil {
		return none, err
	}
	tx.AfterCommit(s.Tests.Wake)
	body, err := testRun(ctx, tx, run)
	return rest.Reply[contract.TestRun]{Status: http.StatusAccepted, Location: testSetPath(set) + "/runs/" + run.ID, RetryAfter: pollAfter, Body: body}, err
}

func (s *Sessions) listTestRuns(ctx context.Context, in rest.Request[setAnd[contract.ListTestRunsParams], rest.None]) (rest.Reply[rest.Page[contract.TestRun]], error) {
	accountID, q := in.Caller.Account.ID, in.Params.Query
	p := rest.NewPager(q.Limit, q.Cursor, q.Order, "testRuns", accountID, in.Params.ID, in.Params.SetID)
	var sums []store.TestSum
	return rest.ReadPage(ctx, s.Store, p, func(tx *store.Tx) ([]stoa.TestRun, bool, error) {
		if _, err := agentsTestSet(ctx, tx, accountID, in.Params.ID, in.Params.SetID, false); err != nil {
			return nil, false, err
		}
		list, more, err := tx.Work().TestRuns(ctx, accountID, in.Params.SetID, p.Page)
		if err == nil {
			sums, err = tx.Work().TestSums(ctx, accountID, list)
		}
		return list, more, err
	}, func(r stoa.TestRun) contract.TestRun { return contractTestRun(r, sums) }, func(r stoa.TestRun) store.Cursor { return store.Cursor{At: r.CreatedAt, ID: r.ID} })
}

func (s *Sessions) getTestRun(ctx context.Context, tx *store.Tx, in rest.Request[byRunID, rest.None]) (rest.Reply[contract.TestRun], error) {
	set, err := agentsTestSet(ctx, tx, in.Caller.Account.ID, in.Params.ID, in.Params.SetID, false)
	if err != nil {
		return rest.Reply[contract.TestRun]{}, err
	}
	run, err := tx.Work().TestRun(ctx, set.AccountID, set.ID, in.Params.RunID, false)
	if err != nil {
		return rest.Reply[contract.TestRun]{}, err
	}
	body, err := testRun(ctx, tx, run)
	return rest.Reply[contract.TestRun]{Body: body}, err
}

func (s *Sessions) cancelTestRun(ctx context.Context, tx *store.Tx, in rest.Request[byRunID, rest.None]) (rest.Reply[contract.TestRun], error) {
	set, err := agentsTestSet(ctx, tx, in.Caller.Account.ID, in.Params.ID, in.Params.SetID, false)
	if err != nil {
		return rest.Reply[contract.TestRun]{}, err
	}
	run, err := s.Tests.Cancel(ctx, tx, in.Caller, set, in.Params.RunID)
	if err != nil {
		return rest.Reply[contract.TestRun]{}, err
	}
	body, err := testRun(ctx, tx, run)
	return rest.Reply[contract.TestRun]{Body: body}, err
}

func contractTestSet(s stoa.TestSet) contract.TestSet {
	out := contract.TestSet{
		ID: s.ID, Object: "test_set", AgentID: s.AgentID, Name: s.Name, QuestionCount: len(s.Questions), CreatedAt: contract.Time(s.CreatedAt), UpdatedAt: contract.Time(s.UpdatedAt),
	}
	for _, q := range s.Questions {
		c := contract.TestQuestion{Message: q.Message, ReplySchema: nullIfEmpty(contract.TestReplySchema(q.ReplySchema))}
		if len(q.Facts) > 0 {
			c.Facts = nullable.NewNullableWithValue(q.Facts)
		}
		if len(q.Absent) > 0 {
			c.Absent = nullable.NewNullableWithValue(q.Absent)
		}
		out.Questions = append(out.Questions, c)
	}
	return out
}

// testRun returns a run with its results.
func testRun(ctx context.Context, tx *store.Tx, r stoa.TestRun) (contract.TestRun, error) {
	sums, err := tx.Work().TestSums(ctx, r.AccountID, []stoa.TestRun{r})
	if err != nil {
		return contract.TestRun{}, err
	}
	out := contractTestRun(r, sums)
	results, err := tx.Work().TestResults(ctx, r)
	for _, result := range results {
		outcome := contract.TestOutcome{
			Status: result.Status, Verdict: nullIfZero(result.Verdict), Reasons: append([]string{}, result.Reasons...), Reply: nullIfZero(result.Reply),
			SessionID: nullIfZero(result.SessionID), CreditsMicro: int64(result.Credits), Milliseconds: result.Milliseconds,
		}
		if result.Side == 0 {
			message := session.CutRunes(r.Questions[result.Number-1].Message, shownTestMessage)
			out.Results = append(out.Results, contract.TestResult{Question: result.Number, Message: message, Current: outcome, Candidate: nullable.NewNullNullable[contract.TestOutcome]()})
		} else {
			out.Results[len(out.Results)-1].Candidate = nullable.NewNullableWithValue(outcome)
		}
	}
	return out, err
}

func contractTestRun(r stoa.TestRun, sums []store.TestSum) contract.TestRun {
	sides := [2]contract.TestSide{{Version: r.Version}, {Version: cmp.Or(r.CandidateVersion, r.Version), Draft: r.Draft != nil}}
	for _, s := range sums {
		if s.RunID == r.ID {
			side := &sides[s.Side]
			side.Questions, side.Passed, side.Failed, side.Errors, side.Open = s.Questions, s.Passed, s.Failed, s.Bad, s.Questions-s.Passed-s.Failed-s.Bad
			side.CreditsMicro, side.Milliseconds = int64(s.Credits), s.Milliseconds
		}
	}
	both := r.Sides() == 2
	return contract.TestRun{
		ID: r.ID, Object: "test_run", AgentID: r.AgentID, TestSetID: r.SetID, Status: string(r.Status), StatusReason: nullIfZero(r.Reason),
		Current: sides[0], Candidate: nullUnless(both, sides[1]), Difference: nullUnless(both, contract.TestDifference{
			Passed: sides[1].Passed - sides[0].Passed, CreditsMicro: sides[1].CreditsMicro - sides[0].CreditsMicro, Milliseconds: sides[1].Milliseconds - sides[0].Milliseconds,
		}), MaxCreditsMicro: int64(r.MaxCredits), CreatedAt: contract.Time(r.CreatedAt), FinishedAt: nullIfNever(r.FinishedAt),
	}
}
