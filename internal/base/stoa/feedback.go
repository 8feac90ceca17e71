package stoa

import "time"

// The two ratings, and the two sides that can rate an answer once each.
const (
	RatingUp   = "up"
	RatingDown = "down"

	ByVisitor = "visitor"
	ByAccount = "account"
)

// MaxFeedbackComment is the maximum length of the comment of a [Feedback], in characters.
const MaxFeedbackComment = 2_000

// A Feedback is a rating of an answer of an agent.
type Feedback struct {
	ID        string    `db:"id"`
	AccountID string    `db:"account_id"`
	AgentID   string    `db:"agent_id"`
	SessionID string    `db:"session_id"`
	MessageID string    `db:"message_id"`
	Turn      int64     `db:"turn"`
	By        string    `db:"side"` // ByVisitor or ByAccount
	Rating    string    `db:"rating"`
	Comment   string    `db:"comment"` // may be empty
	KeyID     string    `db:"key_id"`  // empty for a visitor
	CreatedAt time.Time `db:"created_at"`
	UpdatedAt time.Time `db:"updated_at"`
}
