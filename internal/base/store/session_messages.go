package store

import (
	"context"
	"database/sql"

	"stoa/internal/base/db"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// A MessageRow is a message with its position in the session and in its event log.
type MessageRow struct {
	stoa.SessionMessage
	Place    int64  // position from 1; set by InsertMessage
	FirstSeq int64  // number of the event that announced it
	Note     string // text that the model receives with it; set by InsertMessage and never changed
}

const messageColumns = `id, session_id, place, turn, step, role, kind, status, text, first_seq, created_at, note, attachments`

func scanMessage(rows *sql.Rows) (m MessageRow, err error) {
	var created int64
	var attachments string
	err = rows.Scan(&m.ID, &m.SessionID, &m.Place, &m.Turn, &m.Step, &m.Role, &m.Kind, &m.Status, &m.Text, &m.FirstSeq, &created, &m.Note, &attachments)
	m.CreatedAt = db.Time(created)
	if err == nil {
		err = readOptional(attachments, &m.Attachments)
	}
	return m, err
}

func (tx Work) messages(ctx context.Context, where string, args ...any) ([]MessageRow, error) {
	return list(ctx, tx.Tx, scanMessage, `SELECT `+messageColumns+` FROM messages WHERE `+where, args...)
}

func (tx Work) message(ctx context.Context, where string, args ...any) (MessageRow, bool, error) {
	return first(ctx, tx.Tx, scanMessage, `SELECT `+messageColumns+` FROM messages WHERE `+where, args...)
}

// InsertMessage adds a message at the end of its session.
func (tx Work) InsertMessage(ctx context.Context, m MessageRow) error {
	attachments, err := optionalText(m.Attachments)
	if err != nil {
		return err
	}
	return tx.Later(ctx, `INSERT INTO messages (id, session_id, place, turn, step, role, kind, status, text, first_seq, created_at, note, attachments)
		VALUES ($1, $2, (SELECT COALESCE(MAX(place), 0) + 1 FROM messages WHERE session_id = $2), $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		m.ID, m.SessionID, m.Turn, m.Step, string(m.Role), m.Kind, m.Status, m.Text, m.FirstSeq, db.Micros(tx.Now), m.Note, attachments)
}

// UpdateMessage writes a message's turn, kind, status and text.
func (tx Work) UpdateMessage(ctx context.Context, m stoa.SessionMessage) error {
	return tx.Later(ctx, `UPDATE messages SET turn = $3, kind = $4, status = $5, text = $6 WHERE session_id = $1 AND id = $2`,
		m.SessionID, m.ID, m.Turn, m.Kind, m.Status, m.Text)
}

// PlaceMessageLast moves a message after all others, because it was queued while earlier messages were
// answered.
func (tx Work) PlaceMessageLast(ctx context.Context, sessionID, id string) error {
	_, err := tx.Exec(ctx, `UPDATE messages SET place = (SELECT MAX(place) + 1 FROM messages WHERE session_id = $1) WHERE session_id = $1 AND id = $2`, sessionID, id)
	return err
}

// Messages returns messages of a session in their order, or newest first with
// desc. It starts after the place after; 0 means at the start.
func (tx Work) Messages(ctx context.Context, sessionID string, after int64, limit int, desc bool) ([]MessageRow, bool, error) {
	p := Page{Limit: limit}
	where := `session_id = $1 AND place > $2 ORDER BY place LIMIT $3`
	if desc {
		where = `session_id = $1 AND (CAST($2 AS BIGINT) = 0 OR place < $2) ORDER BY place DESC LIMIT $3`
	}
	return listPage(ctx, tx.Tx, p, scanMessage, `SELECT `+messageColumns+` FROM messages WHERE `+where, sessionID, after, p.limit()+1)
}

// MaxHistory is the maximum number of earlier messages that the caller of a session reports.
const MaxHistory = 100

// History returns the earlier messages that the caller of a session has reported, in order.
func (tx Work) History(ctx context.Context, sessionID string) ([]MessageRow, error) {
	return tx.messages(ctx, `session_id = $1 AND place <= $2 AND kind = 'history' ORDER BY place`, sessionID, MaxHistory)
}

// Message returns one message of a session, and whether it exists.
func (tx Work) Message(ctx context.Context, sessionID, id string) (MessageRow, bool, error) {
	return tx.message(ctx, `session_id = $1 AND id = $2`, sessionID, id)
}

// StepMessage returns the message that a step has begun to write, if any.
func (tx Work) StepMessage(ctx context.Context, sessionID string, turn, step int64) (MessageRow, bool, error) {
	return tx.message(ctx, `session_id = $1 AND turn = $2 AND step = $3 AND kind IN ('reply', 'comment')`, sessionID, turn, step)
}

// TurnReply returns the newest reply of a turn, if any.
func (tx Work) TurnReply(ctx context.Context, sessionID string, turn int64) (MessageRow, bool, error) {
	return tx.message(ctx, `session_id = $1 AND turn = $2 AND kind = 'reply' ORDER BY place DESC LIMIT 1`, sessionID, turn)
}

// OpenMessages returns the messages of a turn that are still being written.
func (tx Work) OpenMessages(ctx context.Context, sessionID string, turn int64) ([]MessageRow, error) {
	return tx.messages(ctx, `session_id = $1 AND turn = $2 AND status = 'in_progress' ORDER BY place`, sessionID, turn)
}

// QueuedMessages returns the messages that wait to be answered, in order.
func (tx Work) QueuedMessages(ctx context.Context, sessionID string) ([]MessageRow, error) {
	return tx.messages(ctx, `session_id = $1 AND status = 'queued' ORDER BY place`, sessionID)
}

type inputScan struct {
	v                          stoa.Input
	options                    string
	def                        sql.NullString
	created, expires, answered int64
	claimed                    int64
}

const inputColumns = `id, turn, step, call_id, kind, prompt, options, default_value, status, answer, created_at, expires_at, answered_at, claimed_until`

func (s *inputScan) dest() []any {
	return []any{&s.v.ID, &s.v.Turn, &s.v.Step, &s.v.CallID, &s.v.Kind, &s.v.Prompt, &s.options, &s.def, &s.v.Status, &s.v.Answer, &s.created, &s.expires, &s.answered, &s.claimed}
}

func (s *inputScan) done(sessionID string) (stoa.Input, error) {
	s.v.SessionID = sessionID
	s.v.CreatedAt, s.v.ExpiresAt, s.v.AnsweredAt = db.Time(s.created), db.Time(s.expires), db.Time(s.answered)
	s.v.ClaimedUntil = db.Time(s.claimed)
	if s.def.Valid {
		s.v.Default = &s.def.String
	}
	return s.v, jsonx.Unmarshal([]byte(s.options), &s.v.Options)
}

// InsertInput adds the input that a turn waits for.
func (tx Work) InsertInput(ctx context.Context, in stoa.Input) error {
	options, err := jsonText(in.Options)
	if err != nil {
		return err
	}
	var def any
	if in.Default != nil {
		def = *in.Default
	}
	return tx.Later(ctx, `INSERT INTO inputs (session_id, id, turn, step, call_id, kind, prompt, options, default_value, status, answer, created_at, expires_at, answered_at, account_id, agent_id)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, '', $11, $12, 0, $13, $14)`,
		in.SessionID, in.ID, in.Turn, in.Step, in.CallID, in.Kind, in.Prompt, options, def, in.Status, db.Micros(tx.Now), db.Micros(in.ExpiresAt), in.AccountID, in.AgentID)
}

// UpdateInput writes an input's status, answer and expiry.
func (tx Work) UpdateInput(ctx context.Context, in stoa.Input) error {
	return tx.Later(ctx, `UPDATE inputs SET status = $3, answer = $4, answered_at = $5, expires_at = $6 WHERE session_id = $1 AND id = $2`,
		in.SessionID, in.ID, in.Status, in.Answer, db.Micros(in.AnsweredAt), db.Micros(in.ExpiresAt))
}

// Input returns an input of a session, with its calls, and whether it exists.
func (tx Work) Input(ctx context.Context, sessionID, id string) (stoa.Input, bool, error) {
	var s inputScan
	found, err := tx.Get(ctx, `SELECT `+inputColumns+` FROM inputs WHERE session_id = $1 AND id = $2`, []any{sessionID, id}, s.dest()...)
	if err != nil || !found {
		return stoa.Input{}, false, err
	}
	in, err := s.done(sessionID)
	if err == nil && in.OfTools() {
		in.Calls, err = tx.inputCalls(ctx, in)
	}
	return in, true, err
}
