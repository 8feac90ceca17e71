package store

import (
	"context"
	"strconv"
	"strings"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// MaxNamed is the maximum number of tools that [Setup.NamedTools] returns.
const MaxNamed = 500

// NamedTools returns the tools of a connection with one of the given names, by name; only
// the first [MaxNamed] names count.
func (tx Setup) NamedTools(ctx context.Context, accountID, connectionID string, names []string) ([]ConnectionTool, error) {
	names = names[:min(len(names), MaxNamed)]
	if len(names) == 0 {
		return nil, nil
	}
	args := []any{accountID, connectionID}
	var in strings.Builder
	for _, name := range names {
		args = append(args, name)
		in.WriteString(", $" + strconv.Itoa(len(args)))
	}
	return list(ctx, tx.Tx, connectionTools.scan, `SELECT `+connectionTools.columns+` FROM connection_tools WHERE account_id = $1 AND connection_id = $2 AND name IN (`+in.String()[2:]+`) ORDER BY name LIMIT 500`, args...)
}

// LocateConnection is like [Setup.Connection] without the numbers of its tools; it returns nil
// if the connection does not exist.
func (tx Setup) LocateConnection(ctx context.Context, accountID, id string) (*Connection, error) {
	return connections.find(ctx, tx.Tx, `account_id = $1 AND id = $2`, accountID, id)
}

// SetWithheld writes which tools a session does not offer in a turn. It reports whether
// that is the first time for the turn. The session is locked by this transaction.
func (tx Setup) SetWithheld(ctx context.Context, accountID, sessionID string, turn int64, list []stoa.Withheld) (first bool, err error) {
	text, err := optionalText(list)
	if err != nil {
		return false, err
	}
	var told int64
	if _, err := tx.Get(ctx, `SELECT withheld_turn FROM sessions WHERE account_id = $1 AND id = $2`, []any{accountID, sessionID}, &told); err != nil {
		return false, err
	}
	_, err = tx.Exec(ctx, `UPDATE sessions SET withheld = $3, withheld_turn = $4 WHERE account_id = $1 AND id = $2`, accountID, sessionID, text, max(told, turn))
	return told < turn, err
}

// HasLongResult reports whether a call of a session has a result of more bytes than
// that.
func (tx Setup) HasLongResult(ctx context.Context, sessionID string, bytes int) (bool, error) {
	var one int
	return tx.Get(ctx, `SELECT 1 FROM tool_calls WHERE session_id = $1 AND result_bytes > $2 LIMIT 1`, []any{sessionID, bytes}, &one)
}

// StartedCalls returns the calls of a turn that the servers of connections may be
// carrying out, or may have carried out before they were planned again.
func (tx Setup) StartedCalls(ctx context.Context, sessionID string, turn int64) ([]stoa.ExternalCall, error) {
	return tx.Work().calls(ctx, `session_id = $1 AND turn = $2 AND (status = 'started' OR status = 'planned' AND previous_outcome = 'unknown') AND type = '`+stoa.ToolConnection+`' ORDER BY step, place`, sessionID, turn)
}

// MarkUnauthorized writes down that the server of a connection refuses its secret, as it
// was when the request was sent.
func (tx Setup) MarkUnauthorized(ctx context.Context, c Connection, code, message string) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE connections SET error_code = $3, error_message = $4, revision = revision + 1, checked_at = $5, updated_at = $5
		WHERE account_id = $1 AND id = $2 AND secret_id = $6 AND url = $7 AND error_code <> $3`,
		c.AccountID, c.ID, code, message, db.Micros(tx.Now), c.SecretID, c.URL)
	return n > 0, err
}
