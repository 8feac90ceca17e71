package store

import (
	"context"
	"database/sql"

	"stoa/internal/base/db"
)

// A Compaction is a call that summarized the beginning of a session, so that its prompts become
// shorter. A turn contains at most one.
type Compaction struct {
	Turn                int64  // the turn of the call
	From                int64  // the first turn that the prompts still contain
	Steps               int64  // number of steps of the turn From that the prompts do not contain
	Text                string // the summary; empty if it was not used
	Calls               string // the summarized tool calls, one in each line
	TokensBefore, After int64  // estimated input of the next step, before and after
}

// InsertCompaction adds a compaction to a session that this transaction has locked.
func (tx Work) InsertCompaction(ctx context.Context, sessionID string, c Compaction) error {
	return tx.Later(ctx, `INSERT INTO compactions (session_id, turn, from_turn, from_steps, text, calls, tokens_before, tokens_after, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		sessionID, c.Turn, c.From, c.Steps, c.Text, c.Calls, c.TokensBefore, c.After, db.Micros(tx.Now))
}

// CompactionOf returns the compaction of a turn; nil for none.
func (tx Work) CompactionOf(ctx context.Context, sessionID string, turn int64) (*Compaction, error) {
	return tx.compaction(ctx, `turn = $2`, sessionID, turn)
}

func (tx Work) compaction(ctx context.Context, where string, args ...any) (*Compaction, error) {
	c, found, err := first(ctx, tx.Tx, func(rows *sql.Rows) (c Compaction, err error) {
		err = rows.Scan(&c.Turn, &c.From, &c.Steps, &c.Text, &c.Calls, &c.TokensBefore, &c.After)
		return c, err
	}, `SELECT turn, from_turn, from_steps, text, calls, tokens_before, tokens_after FROM compactions
		WHERE session_id = $1 AND `+where+` ORDER BY turn DESC LIMIT 1`, args...)
	if err != nil || !found {
		return nil, err
	}
	return &c, nil
}

// Compactions returns the newest compaction of a session and the newest whose summary is used;
// nil for none.
func (tx Work) Compactions(ctx context.Context, sessionID string) (newest, used *Compaction, err error) {
	if newest, err = tx.compaction(ctx, `turn >= 0`, sessionID); err != nil || newest == nil || newest.Text != "" {
		return newest, newest, err
	}
	used, err = tx.compaction(ctx, `text <> ''`, sessionID)
	return newest, used, err
}
