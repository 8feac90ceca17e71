package store

import (
	"context"
	"database/sql"

	"stoa/internal/base/stoa"
)

var feedback = newTable[stoa.Feedback]("feedback")

// SetFeedback writes a rating, in place of one by the same side.
func (tx Work) SetFeedback(ctx context.Context, f stoa.Feedback) error {
	_, err := feedback.insert(ctx, tx.Tx, &f, ` ON CONFLICT (session_id, message_id, side) DO UPDATE SET
		rating = excluded.rating, comment = excluded.comment, key_id = excluded.key_id, updated_at = excluded.updated_at`)
	return err
}

// FeedbackOf returns the rating of a message by a side; nil for none.
func (tx Work) FeedbackOf(ctx context.Context, sessionID, messageID, by string) (*stoa.Feedback, error) {
	return feedback.find(ctx, tx.Tx, `session_id = $1 AND message_id = $2 AND side = $3`, sessionID, messageID, by)
}

// RemoveFeedback deletes the rating of a message by a side.
func (tx Work) RemoveFeedback(ctx context.Context, sessionID, messageID, by string) error {
	_, err := tx.Exec(ctx, `DELETE FROM feedback WHERE session_id = $1 AND message_id = $2 AND side = $3`, sessionID, messageID, by)
	return err
}

// SessionFeedback returns the ratings of the messages of turns of a session, at most the newest 2,000.
func (tx Work) SessionFeedback(ctx context.Context, sessionID string, first, last int64) ([]stoa.Feedback, error) {
	return list(ctx, tx.Tx, feedback.scan, `SELECT `+feedback.columns+` FROM feedback WHERE session_id = $1 AND turn >= $2 AND turn <= $3 ORDER BY turn DESC, side DESC LIMIT 2000`, sessionID, first, last)
}

// A FeedbackFilter narrows a list of ratings. Empty members match all.
type FeedbackFilter struct{ AgentID, SessionID, Rating, By string }

// A RatedReply is a rating with what it is about.
type RatedReply struct {
	stoa.Feedback
	Reply          string // its beginning
	Title          string // of the session
	ExternalUserID string
}

// Feedback lists the ratings of an account, and returns the cursor of the next page, or the zero cursor. With a filter by session,
// rating or side, a page may be short or empty although there is a next one, because it reads at most 2,000 ratings.
func (tx Work) Feedback(ctx context.Context, accountID string, f FeedbackFilter, p Page) ([]RatedReply, Cursor, error) {
	q := filtered{from: `FROM feedback f WHERE f.account_id = $1 AND NOT EXISTS (SELECT 1 FROM agents a WHERE a.account_id = f.account_id AND a.id = f.agent_id AND a.deleted_at > 0)`, args: []any{accountID}}
	switch {
	case f.SessionID != "":
		q.from += ` AND f.session_id = $2`
		q.args = append(q.args, f.SessionID)
		q.rest = []string{"agent_id", f.AgentID}
	case f.AgentID != "":
		q.from += ` AND f.agent_id = $2`
		q.args = append(q.args, f.AgentID)
	}
	q.rest = append(q.rest, "rating", f.Rating, "side", f.By)
	return filteredPage(ctx, tx.Tx, p, q, func(rows *sql.Rows) (r RatedReply, err error) {
		err = rows.Scan(append(feedback.dest(&r.Feedback), &r.Reply, &r.Title, &r.ExternalUserID)...)
		return r, err
	}, func(r RatedReply) Cursor { return Cursor{At: r.CreatedAt, ID: r.ID} },
		`SELECT `+feedback.columnsOf("f.")+`, COALESCE(SUBSTR(m.text, 1, 500), ''), COALESCE(s.title, ''), COALESCE(s.external_user_id, '') FROM (`,
		`) f LEFT JOIN messages m ON m.id = f.message_id LEFT JOIN sessions s ON s.account_id = f.account_id AND s.id = f.session_id`+p.order("f"))
}
