package store

import (
	"context"
	"database/sql"

	"stoa/internal/base/db"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

const turnColumns = `t.number, t.id, t.status, t.reason, t.attempt, t.message_id, t.retry_of, t.failure_code, t.failure_message, t.failure_retryable,
	t.spent, t.created_at, t.started_at, t.finished_at, t.deadline_at, t.max_output`

type turnScan struct {
	t                                    stoa.Turn
	f                                    stoa.Failure
	created, started, finished, deadline int64
}

func (s *turnScan) dest() []any {
	return []any{
		&s.t.Number, &s.t.ID, &s.t.Status, &s.t.Reason, &s.t.Attempt, &s.t.MessageID, &s.t.RetryOf, &s.f.Code, &s.f.Message, &s.f.Retryable,
		&s.t.Spent, &s.created, &s.started, &s.finished, &s.deadline, &s.t.MaxOutput,
	}
}

func (s *turnScan) done(sessionID string) stoa.Turn {
	s.t.SessionID = sessionID
	s.t.CreatedAt, s.t.StartedAt, s.t.FinishedAt, s.t.DeadlineAt = db.Time(s.created), db.Time(s.started), db.Time(s.finished), db.Time(s.deadline)
	if s.f.Code != "" {
		s.t.Failure = &s.f
	}
	return s.t
}

// InsertTurn adds a turn to a session that this transaction has locked or created.
func (tx Work) InsertTurn(ctx context.Context, t stoa.Turn) error {
	return tx.Later(ctx, `INSERT INTO turns (session_id, number, id, status, reason, attempt, message_id, retry_of, failure_code, failure_message, failure_retryable,
			spent, created_at, started_at, finished_at, deadline_at, max_output)
		VALUES ($1, $2, $3, $4, $5, 0, $6, $7, '', '', 0, 0, $8, 0, 0, 0, $9)`,
		t.SessionID, t.Number, t.ID, string(t.Status), t.Reason, t.MessageID, t.RetryOf, db.Micros(tx.Now), t.MaxOutput)
}

// UpdateTurn writes the columns of a turn that can change.
func (tx Work) UpdateTurn(ctx context.Context, t stoa.Turn) error {
	var f stoa.Failure
	if t.Failure != nil {
		f = *t.Failure
	}
	return tx.Later(ctx, `UPDATE turns SET status = $3, reason = $4, attempt = $5, failure_code = $6, failure_message = $7, failure_retryable = $8,
			started_at = $9, finished_at = $10, deadline_at = $11, spent = $12 WHERE session_id = $1 AND number = $2`,
		t.SessionID, t.Number, string(t.Status), t.Reason, t.Attempt, string(f.Code), f.Message, db.Bit(f.Retryable),
		db.Micros(t.StartedAt), db.Micros(t.FinishedAt), db.Micros(t.DeadlineAt), int64(t.Spent))
}

// Turns returns turns of a session by number, or the newest first with desc. It
// starts after the number after; 0 means at the start.
func (tx Work) Turns(ctx context.Context, sessionID string, after int64, limit int, desc bool) ([]stoa.Turn, bool, error) {
	p := Page{Limit: limit}
	cond := ` AND t.number > $2 ORDER BY t.number LIMIT $3`
	if desc {
		cond = ` AND (CAST($2 AS BIGINT) = 0 OR t.number < $2) ORDER BY t.number DESC LIMIT $3`
	}
	return listPage(ctx, tx.Tx, p, func(rows *sql.Rows) (stoa.Turn, error) {
		var s turnScan
		err := rows.Scan(s.dest()...)
		return s.done(sessionID), err
	}, `SELECT `+turnColumns+` FROM turns t WHERE t.session_id = $1`+cond, sessionID, after, p.limit()+1)
}

// A PastTurn is a turn of a session with its user's message.
type PastTurn struct {
	Number     int64
	Text, Note string
	Attached   string // see [Work.Attached]
}

// PastTurns lists turns of a session before and from given ones, the newest first. It leaves
// out turns that a later one has done again, and those about the message without.
func (tx Work) PastTurns(ctx context.Context, sessionID string, from, before int64, without string, limit int) ([]PastTurn, error) {
	return list(ctx, tx.Tx, func(rows *sql.Rows) (t PastTurn, err error) {
		err = rows.Scan(&t.Number, &t.Text, &t.Note, &t.Attached)
		return t, err
	}, `SELECT t.number, m.text, m.note, m.attached FROM turns t JOIN messages m ON m.id = t.message_id
		WHERE t.session_id = $1 AND t.number >= $2 AND t.number < $3 AND t.message_id <> $4
			AND NOT EXISTS (SELECT 1 FROM turns r WHERE r.session_id = t.session_id AND r.retry_of = t.number)
		ORDER BY t.number DESC LIMIT $5`, sessionID, from, before, without, limit)
}

// InsertStep records a step; a step that is there already is an error.
func (tx Work) InsertStep(ctx context.Context, s stoa.Step) error {
	calls, err := jsonText(s.Calls)
	if err != nil {
		return err
	}
	reasoning, of, err := reasoningText(s.Reasoning)
	if err != nil {
		return err
	}
	return tx.Later(ctx, `INSERT INTO steps (session_id, turn, number, text, calls, state_wire, state_model, state_data, stop, created_at, prefix, problem, sent, drive_view)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
		s.SessionID, s.Turn, s.Number, s.Text, calls, of.Wire, of.Model, reasoning, string(s.Stop), db.Micros(tx.Now), s.Prefix, s.Problem, s.Sent, s.View)
}

// StepSent returns how the call of a step was made: [stoa.Step.Sent], and the newest [stoa.Step.View] up to it. Both are empty if
// they were not recorded.
func (tx Work) StepSent(ctx context.Context, sessionID string, turn, number int64) (sent, view string, err error) {
	found, err := tx.Get(ctx, `SELECT sent FROM steps WHERE session_id = $1 AND turn = $2 AND number = $3`, []any{sessionID, turn, number}, &sent)
	if err != nil || !found {
		return "", "", err
	}
	_, err = tx.Get(ctx, `SELECT drive_view FROM steps WHERE session_id = $1 AND (turn < $2 OR turn = $2 AND number <= $3) AND drive_view <> ''
		ORDER BY turn DESC, number DESC LIMIT 1`, []any{sessionID, turn, number}, &view)
	return sent, view, err
}

// storedReasoning is the reasoning of a step in its row, which also has columns for the
// wire and the model.
type storedReasoning struct {
	Provider string          `json:"provider,omitzero"`
	Segments []storedSegment `json:"segments"`
}

// storedSegment is one segment, with the number of text bytes and calls before it.
type storedSegment struct {
	Text   int    `json:"text,omitzero"`
	Calls  int    `json:"calls,omitzero"`
	Tokens int64  `json:"tokens,omitzero"`
	Data   string `json:"data,omitzero"`
	Phase  string `json:"phase,omitzero"` // phase of a segment without data
}

// reasoningText returns the reasoning of a step for its row, and the state that identifies
// the route that created it; both are empty without reasoning.
func reasoningText(list []stoa.Segment) (text string, of stoa.State, err error) {
	if len(list) == 0 {
		return "", of, nil
	}
	of = list[0].State
	r := storedReasoning{Provider: of.Provider, Segments: make([]storedSegment, len(list))}
	for i, s := range list {
		r.Segments[i] = storedSegment{s.Text, s.Calls, s.State.Tokens, s.State.Data, s.Phase}
	}
	text, err = jsonText(r)
	return text, of, err
}

// reasoningOf returns the reasoning in the row of a step. It leaves out the other form of an older
// version, because a reply without it may be worse but is not wrong.
func reasoningOf(text string, of stoa.State) (list []stoa.Segment) {
	var r storedReasoning
	if text == "" || text[0] != '{' || jsonx.Unmarshal([]byte(text), &r) != nil {
		return nil
	}
	of.Provider = r.Provider
	for _, s := range r.Segments {
		of.Data, of.Tokens = s.Data, s.Tokens
		list = append(list, stoa.Segment{State: of, Phase: s.Phase, Text: s.Text, Calls: s.Calls})
	}
	return list
}

// InsertStepResult records the result of the tool call at that place (from 0) of a
// step. A result that is there already is an error.
func (tx Work) InsertStepResult(ctx context.Context, sessionID string, turn, step int64, place int, r stoa.ToolResult) error {
	return tx.Later(ctx, `INSERT INTO step_results (session_id, turn, step, place, call_id, name, content, is_error, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		sessionID, turn, step, place, r.CallID, r.Name, r.Content, db.Bit(r.IsError), db.Micros(tx.Now))
}

// Steps returns the recorded steps of a turn in order, with their results.
func (tx Work) Steps(ctx context.Context, sessionID string, turn int64) ([]stoa.Step, error) {
	list, err := tx.StepsOf(ctx, sessionID, turn, turn)
	if err != nil || len(list) == 0 {
		return list, err
	}
	return list, tx.resultImages(ctx, sessionID, turn, list)
}

// StepsOf is [Work.Steps] for a range of turns, without the images of results.
func (tx Work) StepsOf(ctx context.Context, sessionID string, from, through int64) ([]stoa.Step, error) {
	var list []stoa.Step
	err := tx.Query(ctx, func(rows *sql.Rows) error {
		s := stoa.Step{SessionID: sessionID}
		var calls, reasoning string
		var of stoa.State
		var created int64
		if err := rows.Scan(&s.Turn, &s.Number, &s.Text, &calls, &of.Wire, &of.Model, &reasoning, &s.Stop, &created, &s.Prefix, &s.Problem); err != nil {
			return err
		}
		s.Reasoning = reasoningOf(reasoning, of)
		s.CreatedAt = db.Time(created)
		list = append(list, s)
		last := &list[len(list)-1]
		if err := jsonx.Unmarshal([]byte(calls), &last.Calls); err != nil {
			return err
		}
		last.Results = make([]*stoa.ToolResult, len(last.Calls))
		return nil
	}, `SELECT turn, number, text, calls, state_wire, state_model, state_data, stop, created_at, prefix, problem FROM steps
		WHERE session_id = $1 AND turn >= $2 AND turn <= $3 ORDER BY turn, number`, sessionID, from, through)
	if err != nil || len(list) == 0 {
		return list, err
	}
	err = tx.Query(ctx, func(rows *sql.Rows) error {
		var turn, step int64
		var place int
		var r stoa.ToolResult
		if err := rows.Scan(&turn, &step, &place, &r.CallID, &r.Name, &r.Content, &r.IsError); err != nil {
			return err
		}
		for i := range list {
			if list[i].Turn == turn && list[i].Number == step && place < len(list[i].Results) {
				list[i].Results[place] = &r
			}
		}
		return nil
	}, `SELECT turn, step, place, call_id, name, content, is_error FROM step_results WHERE session_id = $1 AND turn >= $2 AND turn <= $3 ORDER BY turn, step, place`, sessionID, from, through)
	return list, err
}
