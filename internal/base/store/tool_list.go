package store

import (
	"context"

	"stoa/internal/base/db"
)

// maxToolLists is the maximum number of lists of definitions that an agent keeps. A session whose list was removed stores its tools again,
// as they are then.
const maxToolLists = 200

// KeepTools sets the definitions with which the prompts of a session begin, which sessions of an agent share by their hash, and what the
// model was told about them since. Empty definitions are stored already.
func (tx Work) KeepTools(ctx context.Context, accountID, agentID, sessionID, sha256, tools, view string) error {
	if tools != "" {
		n, err := tx.Exec(ctx, `INSERT INTO tool_lists (agent_id, sha256, account_id, tools, created_at) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`,
			agentID, sha256, accountID, tools, db.Micros(tx.Now))
		if err == nil && n > 0 {
			_, err = tx.Exec(ctx, `DELETE FROM tool_lists WHERE account_id = $1 AND agent_id = $2 AND sha256 IN (SELECT sha256 FROM tool_lists
				WHERE account_id = $1 AND agent_id = $2 AND sha256 <> $3 ORDER BY created_at DESC, sha256 LIMIT $4 OFFSET $5)`, accountID, agentID, sha256, maxToolLists, maxToolLists-1)
		}
		if err != nil {
			return err
		}
	}
	return tx.Later(ctx, `UPDATE sessions SET tool_list = $3, tool_view = $4 WHERE account_id = $1 AND id = $2`, accountID, sessionID, sha256, view)
}

// ToolList returns definitions of an agent's tools by their hash; empty if they are no longer stored.
func (tx Work) ToolList(ctx context.Context, accountID, agentID, sha256 string) (tools string, err error) {
	_, err = tx.Get(ctx, `SELECT tools FROM tool_lists WHERE account_id = $1 AND agent_id = $2 AND sha256 = $3`, []any{accountID, agentID, sha256}, &tools)
	return tools, err
}
