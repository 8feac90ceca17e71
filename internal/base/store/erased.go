package store

import (
	"context"
	"database/sql"
	"time"

	"stoa/internal/base/audit"
	"stoa/internal/base/db"
)

// An erasedTable says what an erasure does to the texts of a table. Each column that is not a number is in one of its lists: a
// test compares them with the tables of both databases, so that a new column needs a decision.
type erasedTable struct {
	name    string
	of      string // condition of the rows of the account $1
	removed string // columns of rows that are removed with the account
	cleared string // columns that are emptied in rows that stay
	kept    string // columns that stay, for the reason why
	why     string
	user    string // what the erasure of an end user does; empty if nothing names one
}

const (
	erasedOf      = `account_id = $1`
	erasedSession = `session_id IN (SELECT id FROM sessions WHERE account_id = $1)`
	erasedEmbed   = `embed_id IN (SELECT id FROM embeds WHERE account_id = $1 UNION ALL SELECT id FROM embed_tags WHERE account_id = $1)`
)

// erasedTables lists all tables with texts. [Operations.EraseRows] removes rows in this order, so parts precede what their
// condition reads.
var erasedTables = []erasedTable{
	{name: "test_results", of: erasedOf, removed: "account_id agent_id run_id status verdict reasons reply session_id", user: "the reply is removed with the session"},
	{name: "test_runs", of: erasedOf, removed: "id account_id agent_id set_id key_id name status reason draft questions"},
	{name: "test_sets", of: erasedOf, removed: "id account_id agent_id name questions"},
	{name: "session_events", of: erasedSession, removed: "session_id type data", user: "removed with the session"},
	{name: "session_rules", of: erasedSession, removed: "account_id session_id tool sha256 made_by", user: "removed with the session"},
	{name: "sources", of: erasedSession, removed: "session_id path sha256 via place", user: "removed with the session"},
	{name: "result_images", of: erasedSession, removed: "session_id mime_type content", user: "removed with the session"},
	{name: "step_results", of: erasedSession, removed: "session_id call_id name content", user: "removed with the session"},
	{name: "steps", of: erasedSession, removed: "session_id text calls state_wire state_model state_data stop prefix problem sent drive_view", user: "removed with the session"},
	{name: "feedback", of: erasedOf, removed: "id account_id agent_id session_id message_id side rating comment key_id", user: "removed with the session"},
	{name: "compactions", of: erasedSession, removed: "session_id text calls", user: "removed with the session"},
	{name: "messages", of: erasedSession, removed: "id session_id role kind status text note attachments attached", user: "removed with the session"},
	{name: "turns", of: erasedSession, removed: "session_id id status reason message_id failure_code failure_message", user: "removed with the session"},
	{name: "inputs", of: erasedSession, removed: "id session_id call_id kind prompt options default_value status answer account_id agent_id claim_id", user: "removed with the session"},
	{name: "tool_calls", of: erasedOf, removed: "id call_id account_id agent_id session_id type tool connection_id definition_sha256 arguments arguments_sha256 effects status outcome input_id on_timeout child_session_id result error_code late_output decision decided_by comment resolution note resolved_by approval approval_input_id previous_outcome title confirmation confirm_input_id confirmed confirmed_by secret_id on_unknown idempotency_argument", user: "removed with the session"},
	{name: "uploads", of: `account_id = $1 AND session_id = ''`, removed: "id account_id agent_id chat_id session_id name mime sha256 tag_id network", user: "removed with the session"},
	{name: "sessions", of: erasedOf, removed: "id account_id space_id agent_id key_id mode status reply_id input_id model_asked model_served trigger_type trigger_id external_id external_user_id title metadata owner draft withheld timezone line drive_view tool_list tool_view reply_schema", user: "removed with the session"},
	{name: "deliveries", of: erasedOf, removed: "id account_id webhook_id event_id type body status lease log", user: "deliveries that name the user or a session"},
	{name: "webhook_notices", of: erasedOf, removed: "account_id name"},
	{name: "webhooks", of: erasedOf, removed: "id account_id key_id url events spaces description sealed disabled mark"},
	{name: "idempotency", of: `account_id = $1 AND state = 'done'`, removed: "account_id method path key body_hash state owner claim ref headers body", user: "replies that name the user, a session or a receipt"},
	{name: "task_runs", of: `task_id IN (SELECT id FROM tasks WHERE account_id = $1)`, removed: "id task_id account_id trigger_kind status skip_reason waiting session_id"},
	{name: "tasks", of: erasedOf, removed: "id account_id agent_id key_id name message mode schedule_type expression timezone pause_reason session_policy missed_policy overlap_policy session_id last_run_id"},
	{name: "hook_events", of: erasedOf, removed: "account_id hook_id event"},
	{name: "hooks", of: erasedOf, removed: "id account_id agent_id key_id name signature message_path external_path user_path event_path mode networks disabled sealed"},
	{name: "embed_tokens", of: erasedEmbed, removed: "hash embed_id", user: "removed with the embed"},
	{name: "embed_tickets", of: erasedEmbed, removed: "hash embed_id", user: "removed with the embed"},
	{name: "embed_origins", of: erasedEmbed, removed: "embed_id origin", user: "removed with the embed"},
	{name: "embed_refusals", of: erasedEmbed, removed: "embed_id origin", user: "removed with the embed"},
	{name: "embed_chats", of: erasedOf, removed: "id account_id agent_id user_id", user: "removed with the embed"},
	{name: "embeds", of: erasedOf, removed: "id account_id agent_id key_id kind chat_id origins external_user_id greeting theme ticket recent tag_id visitor network attachments title logo starters", user: "removed with the embed"},
	{name: "embed_tags", of: erasedOf, removed: "id account_id agent_id key_id origins greeting theme accent position language disabled attachments title logo starters"},
	{name: "embed_logos", of: erasedOf, removed: "id account_id mime_type content"},
	{name: "own_credentials", of: erasedOf, removed: "account_id owner_id connection_id secret_id", user: "removed with the embed"},
	{name: "authorizations", of: `connection_id IN (SELECT id FROM connections WHERE account_id = $1)`, removed: "connection_id account_id id status message"},
	{name: "oauth_states", of: erasedOf, removed: "id account_id connection_id sealed"},
	{name: "oauth_clients", of: erasedOf, removed: "id account_id issuer redirect_uri sealed"},
	{name: "connection_tokens", of: `id IN (SELECT id FROM connections WHERE account_id = $1)`, removed: "id account_id issuer resource sealed lease"},
	{name: "connection_sources", of: erasedOf, removed: "account_id connection_id source"},
	{name: "connection_tools", of: erasedOf, removed: "account_id connection_id name model_name definition sha256 problem approved_definition approved_sha256 rejected_sha256 approval effects state visitors visitor_title public_fields on_unknown idempotency_argument"},
	{name: "connections", of: erasedOf, removed: "id account_id space_id kind name url secret_id headers metadata protocol server_name server_version instructions error_code error_message document_url on_change oauth client_secret_id credentials_per_session filter sessions"},
	{name: "secrets", of: erasedOf, removed: "id account_id name kind header_name origin hint sealed space_id external_user_id", user: "rows of the user are removed"},
	{name: "memories", of: erasedOf, removed: "id account_id agent_id user_id", user: "removed when the erasure begins, see EraseMemories"},
	{name: "memory_notes", of: erasedOf, removed: "id account_id agent_id user_id name text", user: "removed when the erasure begins, see EraseMemories"},
	{name: "tool_lists", of: erasedOf, removed: "agent_id sha256 account_id tools"},
	{name: "agent_versions", of: `agent_id IN (SELECT id FROM agents WHERE account_id = $1)`, removed: "agent_id instructions model drive_access tools visitor_drive timezone call_settings"},
	{name: "agents", of: erasedOf, removed: "id account_id space_id external_id name description instructions model drive_access metadata tools visitor_drive timezone expose call_settings"},
	{name: "spaces", of: erasedOf, removed: "id account_id external_id name description metadata"},
	{name: "budget_windows", of: erasedOf, removed: "id account_id budget_id subject", user: "the name is replaced"},
	{name: "budgets", of: erasedOf, removed: "id account_id scope subject period time_zone at_cap notify_at", user: "a budget that names the user is removed"},
	{name: "requests", of: erasedOf, removed: "id account_id key_id asked served provider code param response_id address"},
	{name: "request_counts", of: erasedOf, removed: "account_id"},
	{name: "request_drops", of: erasedOf, removed: "account_id"},
	{name: "link_mails", of: erasedOf, removed: "id account_id recipient sealed"},
	{name: "console_sessions", of: `key_id <> '' AND key_id IN (SELECT id FROM keys WHERE account_id = $1)`, removed: "hash person_id key_id"},
	{name: "invitations", of: erasedOf, removed: "id hash account_id person_id role operator_role name made_by account_name plan email"},
	{name: "members", of: erasedOf, removed: "account_id person_id role operator_role source key_id"},
	{name: "keys", of: erasedOf, removed: "id account_id hash name hint scopes root_id successor_id made_by kind member_id models networks"},
	{name: "accounts", cleared: "name email default_space_id", kept: "id plan", why: "its receipts, grants and statements belong to it"},
	{name: "charges", cleared: "end_user", kept: "id account_id key_id lease_id node_id asked served reason provider price_version state space_id agent_id session_id marked_by route_reason broke ignored member_id embed_id root_id windows route_key price_band", why: "the receipts of the books, without the name of an end user", user: "the name is replaced"},
	{name: "grants", cleared: "reason", kept: "id account_id external_ref kind", why: "the books; a reference names the payment in the books of the operator"},
	{name: "withdrawals", cleared: "reason", kept: "id account_id external_ref kind", why: "as grants"},
	{name: "payments", cleared: "checkout_url", kept: "id account_id made_by pack name currency state checkout_id payment_intent claimed_by", why: "the payments, with the ids of the processor"},
	{name: "audit", cleared: "address before after", kept: "account_id actor action object request_id prev hash", why: "the log, whose chain must verify; the ids of keys and objects are random", user: "entries that name the user or a session are emptied"},
	{name: "audit_heads", kept: "account_id hash purged_hash", why: "hashes"},
	{name: "charge_adjustments", kept: "charge_id account_id", why: "ids"},
	{name: "charge_days", kept: "account_id node_id", why: "sums"},
	{name: "charge_hours", kept: "account_id served provider key_id node_id", why: "sums by model, provider and key"},
	{name: "charge_hours_fill", kept: "account_id", why: "sums"},
	{name: "leases", kept: "id account_id node_id", why: "the books"},
	{name: "plan_periods", kept: "account_id month plan claimed_by", why: "the books"},
	{name: "purged_charges", kept: "account_id lease_id", why: "the books"},
	{name: "statements", kept: "account_id month grants charges", why: "sums by kind of grant and by model"},
	{name: "vendor_failures", kept: "id account_id provider served", why: "costs of failed calls by model"},
	{name: "erasures", cleared: "subject", kept: "id account_id kind target replacement", why: "the record of the erasure", user: "emptied at the end"},
	{name: "people", kept: "id issuer subject email name", why: "removed with their last membership; see EraseMembers"},
	{name: "budget_holds", kept: "window_id hold_id node_id", why: "ids of calls in progress"},
	{name: "alerts", kept: "kind subject data", why: "ids and sums"},
	{name: "config_draft", kept: "body author", why: "settings of the operator"},
	{name: "config_secrets", kept: "id provider origin sealed", why: "settings of the operator"},
	{name: "config_versions", kept: "body changes author note", why: "settings of the operator"},
	{name: "node_counts", kept: "node_id counts", why: "counts of a node"},
	{name: "nodes", kept: "id version config_hash address config_problem", why: "the nodes of the service"},
	{name: "runners", kept: "id node_id", why: "processes that run sessions"},
	{name: "sign_in_states", kept: "state", why: "random, for ten minutes"},
	{name: "statement_months", kept: "month", why: "months"},
	{name: "store_probe", kept: "data", why: "random"},
}

// EraseRows removes up to limit rows of a deleted account and returns their number; 0 means that none are left. Its sessions must
// have ended, and its request log be empty ([Operations.PurgeRequestsBeyond]), whose writer locks in another order.
func (tx Operations) EraseRows(ctx context.Context, accountID string, limit int) (int64, error) {
	row := "rowid"
	if tx.Postgres() {
		row = "ctid"
	}
	for _, t := range erasedTables {
		if t.removed == "" {
			continue
		}
		n, err := tx.Exec(ctx, `DELETE FROM `+t.name+` WHERE `+row+` IN (SELECT `+row+` FROM `+t.name+` WHERE `+t.of+` LIMIT $2)`, accountID, limit)
		if err != nil || n > 0 {
			return n, err
		}
	}
	return 0, nil
}

// EraseMembers removes the members of an account, and the persons who have no other membership, with their sessions of the
// console.
func (tx People) EraseMembers(ctx context.Context, accountID string) error {
	if err := tx.LockMembers(ctx, accountID); err != nil {
		return err
	}
	persons, err := tx.texts(ctx, `SELECT person_id FROM members m WHERE account_id = $1
		AND NOT EXISTS (SELECT 1 FROM members o WHERE o.person_id = m.person_id AND o.account_id <> $1) LIMIT $2`, accountID, MaxMembers)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `DELETE FROM members WHERE account_id = $1`, accountID); err != nil {
		return err
	}
	for _, id := range persons {
		if err := tx.DeleteConsoleSessionsOf(ctx, id); err != nil {
			return err
		}
		if err := tx.DeletePerson(ctx, id); err != nil {
			return err
		}
	}
	// An invitation that created the account belongs to the operator and names the account.
	_, err = tx.Exec(ctx, `DELETE FROM invitations WHERE used_at > 0 AND account_name <> '' AND account_name = (SELECT name FROM accounts WHERE id = $1)`, accountID)
	return err
}

// EraseNames empties the texts of an account's rows that stay, except those of receipts and the audit log.
func (tx Books) EraseNames(ctx context.Context, accountID string) error {
	for _, q := range []string{
		`UPDATE accounts SET name = '', email = '', default_space_id = '' WHERE id = $1`,
		`UPDATE grants SET reason = '' WHERE account_id = $1`,
		`UPDATE withdrawals SET reason = '' WHERE account_id = $1`,
		`UPDATE payments SET checkout_url = '' WHERE account_id = $1 AND state <> 'pending'`,
	} {
		if _, err := tx.Exec(ctx, q, accountID); err != nil {
			return err
		}
	}
	return tx.changeBudgets(ctx)
}

// RenameEndUser replaces the name of an end user in up to limit receipts of an account and returns their number. An empty user
// means all. It changes no amount.
func (tx Books) RenameEndUser(ctx context.Context, accountID, user, name string, limit int) (int64, error) {
	return tx.Exec(ctx, `UPDATE charges SET end_user = $3 WHERE id IN (SELECT id FROM charges WHERE account_id = $1 AND end_user <> '' AND ($2 = '' OR end_user = $2) AND end_user <> $3 LIMIT $4)`,
		accountID, user, name, limit)
}

// EraseEndUser removes the embeds, the chats that have not begun, the secrets and the budgets of an end user, up to limit of each
// kind, and renames the periods of other budgets. It returns the number of removed rows; less than limit means that none are left.
func (tx Setup) EraseEndUser(ctx context.Context, accountID, user, name string, limit int) (n int64, err error) {
	embeds, err := tx.texts(ctx, `SELECT id FROM embeds WHERE account_id = $1 AND external_user_id = $2 LIMIT $3`, accountID, user, limit)
	if err != nil {
		return 0, err
	}
	for _, id := range embeds {
		if err := tx.deleteEmbed(ctx, id); err != nil {
			return 0, err
		}
	}
	n = int64(len(embeds))
	budgets, err := tx.texts(ctx, `SELECT id FROM budgets WHERE account_id = $1 AND scope = 'end_user' AND subject = $2 LIMIT $3`, accountID, user, limit)
	if err != nil {
		return 0, err
	}
	for _, id := range budgets {
		if err := tx.Books().DeleteBudget(ctx, accountID, id); err != nil {
			return 0, err
		}
	}
	for _, q := range []string{
		`DELETE FROM budget_windows WHERE account_id = $1 AND subject = $2 AND NOT EXISTS (SELECT 1 FROM budgets b WHERE b.id = budget_windows.budget_id) AND budget_id <> ''`,
		`DELETE FROM uploads WHERE account_id = $1 AND session_id = '' AND chat_id IN (SELECT id FROM embed_chats WHERE account_id = $1 AND user_id = $2)`,
		`DELETE FROM embed_chats WHERE account_id = $1 AND user_id = $2`,
		`DELETE FROM own_credentials WHERE account_id = $1 AND secret_id IN (SELECT id FROM secrets WHERE account_id = $1 AND external_user_id = $2)`,
		`DELETE FROM secrets WHERE account_id = $1 AND external_user_id = $2`,
	} {
		gone, err := tx.Exec(ctx, q, accountID, user)
		if err != nil {
			return 0, err
		}
		n += gone
	}
	_, err = tx.Exec(ctx, `UPDATE budget_windows SET subject = $3 WHERE account_id = $1 AND subject = $2 AND budget_id IN (SELECT id FROM budgets WHERE account_id = $1 AND scope = 'end_user')`, accountID, user, name)
	return n + int64(len(budgets)), err
}

// EraseRequestsOf removes the texts of an end user's calls from the request log, and the stored replies of these calls. It must
// run before [Books.RenameEndUser], with whose receipts it finds them.
func (tx Operations) EraseRequestsOf(ctx context.Context, accountID, user string) error {
	for _, q := range []string{
		`UPDATE requests SET address = '', param = '' WHERE account_id = $1 AND response_id IN (SELECT id FROM charges WHERE account_id = $1 AND end_user = $2 AND end_user <> '')`,
		`DELETE FROM idempotency WHERE account_id = $1 AND state = 'done' AND ref IN (SELECT id FROM charges WHERE account_id = $1 AND end_user = $2 AND end_user <> '')`,
	} {
		if _, err := tx.Exec(ctx, q, accountID, user); err != nil {
			return err
		}
	}
	return nil
}

// SessionsOfUser lists the sessions of an end user that were created until a time, by id and after the given one.
func (tx Work) SessionsOfUser(ctx context.Context, accountID, user string, until time.Time, after string, limit int) ([]string, error) {
	return tx.texts(ctx, `SELECT id FROM sessions WHERE account_id = $1 AND external_user_id = $2 AND external_user_id <> '' AND id > $3 AND created_at <= $4 ORDER BY id LIMIT $5`,
		accountID, user, after, db.Micros(until), limit)
}

// SessionsOfAccount lists sessions of an account.
func (tx Work) SessionsOfAccount(ctx context.Context, accountID string, limit int) ([]string, error) {
	return tx.texts(ctx, `SELECT id FROM sessions WHERE account_id = $1 ORDER BY agent_id, created_at, id LIMIT $2`, accountID, limit)
}

// SessionOfCall returns the id of the session of a tool call, or "" if the call is gone.
func (tx Work) SessionOfCall(ctx context.Context, accountID, callID string) (id string, err error) {
	_, err = tx.Get(ctx, `SELECT session_id FROM tool_calls WHERE account_id = $1 AND id = $2 LIMIT 1`, []any{accountID, callID}, &id)
	return id, err
}

// LiveAgents lists agents of an account that are not deleted.
func (tx Setup) LiveAgents(ctx context.Context, accountID string, limit int) ([]string, error) {
	return tx.texts(ctx, `SELECT id FROM agents WHERE account_id = $1 AND deleted_at = 0 ORDER BY created_at, id LIMIT $2`, accountID, limit)
}

// A KeptText is a row whose texts an erasure searches: a delivery, or a stored reply.
type KeptText struct {
	webhook, id       string // of a delivery
	at                int64
	method, path, key string // of a reply
	Text              string
}

// DeliveryTexts lists the bodies of deliveries of an account, after the given row.
func (tx Operations) DeliveryTexts(ctx context.Context, accountID string, after KeptText, limit int) ([]KeptText, error) {
	return list(ctx, tx.Tx, func(rows *sql.Rows) (t KeptText, err error) {
		err = rows.Scan(&t.webhook, &t.at, &t.id, &t.Text)
		return t, err
	}, `SELECT webhook_id, created_at, id, body FROM deliveries WHERE account_id = $1 AND (webhook_id, created_at, id) > ($2, $3, $4) ORDER BY webhook_id, created_at, id LIMIT $5`,
		accountID, after.webhook, after.at, after.id, limit)
}

// ReplyTexts lists the paths and bodies of stored replies of an account, after the given row.
func (tx Operations) ReplyTexts(ctx context.Context, accountID string, after KeptText, limit int) ([]KeptText, error) {
	return list(ctx, tx.Tx, func(rows *sql.Rows) (t KeptText, err error) {
		err = rows.Scan(&t.method, &t.path, &t.key, &t.Text)
		return t, err
	}, `SELECT method, path, key, path || ' ' || ref || ' ' || body FROM idempotency WHERE account_id = $1 AND state = 'done' AND (method, path, key) > ($2, $3, $4) ORDER BY method, path, key LIMIT $5`,
		accountID, after.method, after.path, after.key, limit)
}

// RemoveText removes a delivery or a stored reply.
func (tx Operations) RemoveText(ctx context.Context, accountID string, t KeptText) error {
	if t.id != "" {
		_, err := tx.Exec(ctx, `DELETE FROM deliveries WHERE account_id = $1 AND id = $2`, accountID, t.id)
		return err
	}
	_, err := tx.Exec(ctx, `DELETE FROM idempotency WHERE account_id = $1 AND method = $2 AND path = $3 AND key = $4 AND state = 'done'`, accountID, t.method, t.path, t.key)
	return err
}

// EraseAudit empties up to [audit.MaxErasures] rows of a chain after one with a number, of those that which selects, and adds one
// that names them; see [audit.Entry.Erase]. It returns the number of the last row that it read, 0 at the end.
func (tx People) EraseAudit(ctx context.Context, chain, erasureID string, after int64, which func(audit.Entry) (bool, error)) (last int64, n int64, err error) {
	rows, err := list(ctx, tx.Tx, scanAudit, `SELECT `+auditColumns+` FROM audit WHERE account_id = $1 AND seq > $2 ORDER BY seq LIMIT $3`, chain, after, audit.MaxErasures)
	if err != nil {
		return 0, 0, err
	}
	named := audit.Erasure{ID: erasureID}
	for _, e := range rows {
		last = e.Seq
		if e.Action == audit.ErasureAction {
			continue
		}
		if is, err := which(e); err != nil {
			return 0, 0, err
		} else if !is || !e.Erase() {
			continue
		}
		if _, err := tx.Exec(ctx, `UPDATE audit SET before = $3, after = $4, address = $5 WHERE account_id = $1 AND seq = $2`, chain, e.Seq, e.Before, e.After, e.Address); err != nil {
			return 0, 0, err
		}
		named.Entries = append(named.Entries, audit.ErasedEntry{Seq: e.Seq, Sum: e.Sum()})
	}
	if len(named.Entries) == 0 {
		return last, 0, nil
	}
	text, err := jsonText(named)
	if err != nil {
		return 0, 0, err
	}
	tx.Audit(audit.Entry{AccountID: chain, Actor: audit.Service, Action: audit.ErasureAction, Object: erasureID, After: text})
	return last, int64(len(named.Entries)), nil
}

// EmptyLog is [db.DB.EmptyLog].
func (s *Store) EmptyLog(ctx context.Context) error { return s.db.EmptyLog(ctx) }
