package store

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

var (
	toolCalls  = newTable[stoa.ExternalCall]("tool_calls")
	shownCalls = callsWith(`substr(result, 1, 4096)`) // the columns of a list, with the beginning of a result since those are long
)

// callsWith returns the columns of toolCalls with another expression for the result.
func callsWith(result string) string {
	return strings.Replace(toolCalls.columns, " result,", " "+result+",", 1)
}

func (tx Work) calls(ctx context.Context, where string, args ...any) ([]stoa.ExternalCall, error) {
	return list(ctx, tx.Tx, toolCalls.scan, `SELECT `+toolCalls.columns+` FROM tool_calls WHERE `+where, args...)
}

// InsertToolCall adds a call to its step. It must commit before anything leaves the service, because a
// call could otherwise be repeated after a crash; see
// docs/decisions/0046-record-a-tool-call-before-it-runs.md. The transaction must have locked the session.
func (tx Work) InsertToolCall(ctx context.Context, c stoa.ExternalCall) error {
	insert, args, err := toolCalls.inserting(&c, "arguments_sha256", stoa.HashOf(c.Arguments))
	if err != nil {
		return err
	}
	return tx.Later(ctx, insert, args...)
}

// EndLostTrials records an unknown outcome for calls of an account without a session that began before
// that time, because their process has ended.
func (tx Work) EndLostTrials(ctx context.Context, accountID string, before time.Time) error {
	_, err := tx.Exec(ctx, `UPDATE tool_calls SET status = 'done', outcome = 'unknown', finished_at = $3
		WHERE account_id = $1 AND status = 'started' AND session_id = '' AND created_at < $2`, accountID, db.Micros(before), db.Micros(tx.Now))
	return err
}

// UpdateToolCall writes the columns of a call that its turn changes. The transaction must have locked
// the session.
func (tx Work) UpdateToolCall(ctx context.Context, c stoa.ExternalCall) error {
	c.ResultBytes = len(c.Result)
	update, args, err := toolCalls.changing(&c, changedCall, nil, `account_id = $1 AND id = $2`, c.AccountID, c.ID)
	if err != nil {
		return err
	}
	return tx.Later(ctx, update, args...)
}

// changedCall lists the columns of a call that its turn changes.
var changedCall = strings.Fields(`status outcome input_id attempts result result_bytes error_code expires_at started_at finished_at
	approval_input_id decision decided_by decided_at comment previous_outcome lost
	confirm_input_id confirmed confirmed_by confirmed_at secret_id`)

// CalledBefore reports whether a session has made another call of a connection that ended.
func (tx Work) CalledBefore(ctx context.Context, accountID, sessionID, connectionID, call string) (bool, error) {
	var one int
	return tx.Get(ctx, `SELECT 1 FROM tool_calls WHERE account_id = $1 AND session_id = $2 AND connection_id = $3 AND id <> $4 AND status = 'done' AND attempts > 0 LIMIT 1`,
		[]any{accountID, sessionID, connectionID, call}, &one)
}

// CancelToolCalls ends the calls of a turn that have no outcome. An earlier unknown outcome remains,
// because the call may have been executed.
func (tx Work) CancelToolCalls(ctx context.Context, sessionID string, turn int64) error {
	return tx.Later(ctx, `UPDATE tool_calls SET status = 'done', outcome = CASE WHEN previous_outcome <> '' THEN previous_outcome ELSE 'cancelled' END, finished_at = $3
		WHERE session_id = $1 AND turn = $2 AND status <> 'done'`, sessionID, turn, db.Micros(tx.Now))
}

// StepCalls returns the calls of a step by their places.
func (tx Work) StepCalls(ctx context.Context, sessionID string, turn, step int64) ([]stoa.ExternalCall, error) {
	return tx.calls(ctx, `session_id = $1 AND turn = $2 AND step = $3 ORDER BY place`, sessionID, turn, step)
}

func (tx Work) inputCalls(ctx context.Context, in stoa.Input) ([]stoa.ExternalCall, error) {
	return tx.calls(ctx, `session_id = $1 AND turn = $2 AND step = $3 AND (input_id = $4 OR approval_input_id = $4 OR confirm_input_id = $4) ORDER BY place`, in.SessionID, in.Turn, in.Step, in.ID)
}

// TurnCalls returns the number of a turn's external calls.
func (tx Work) TurnCalls(ctx context.Context, sessionID string, turn int64) (n int, err error) {
	_, err = tx.Get(ctx, `SELECT COUNT(*) FROM tool_calls WHERE session_id = $1 AND turn = $2`, []any{sessionID, turn}, &n)
	return n, err
}

// TurnWaits returns the number of times that a turn has waited for outputs of tools,
// approvals or confirmations.
func (tx Work) TurnWaits(ctx context.Context, sessionID string, turn int64) (n int, err error) {
	_, err = tx.Get(ctx, `SELECT COUNT(*) FROM inputs WHERE session_id = $1 AND turn = $2 AND kind IN ('tool_call', 'tool_approval', 'tool_confirmation')`, []any{sessionID, turn}, &n)
	return n, err
}

// A SessionRule is a tool whose calls need no more approvals in a session while its
// definition stays the same.
type SessionRule struct {
	Tool, SHA256 string // those of a call; a rule ends with the definition
	MadeBy       string // the id of the key
	CreatedAt    time.Time
}

// maxRules is the maximum number of rules that are read. It exceeds what a session can have, so that
// none is missing.
const maxRules = 10_000

// SessionRules returns the tools of a session that need no more approvals.
func (tx Work) SessionRules(ctx context.Context, accountID, sessionID string) ([]SessionRule, error) {
	return list(ctx, tx.Tx, func(rows *sql.Rows) (r SessionRule, err error) {
		var created int64
		err = rows.Scan(&r.Tool, &r.SHA256, &r.MadeBy, &created)
		r.CreatedAt = db.Time(created)
		return r, err
	}, `SELECT tool, sha256, made_by, created_at FROM session_rules WHERE account_id = $1 AND session_id = $2 ORDER BY tool, sha256 LIMIT $3`, accountID, sessionID, maxRules)
}

// InsertSessionRule adds a tool that needs no more approvals in a session. An existing one stays
// unchanged. The transaction must have locked the session.
func (tx Work) InsertSessionRule(ctx context.Context, accountID, sessionID string, r SessionRule) error {
	return tx.Later(ctx, `INSERT INTO session_rules (account_id, session_id, tool, sha256, made_by, created_at) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (session_id, tool, sha256) DO NOTHING`, accountID, sessionID, r.Tool, r.SHA256, r.MadeBy, db.Micros(r.CreatedAt))
}

// mayHaveActed is the condition of a call that may have changed something.
const mayHaveActed = `effects <> 'read' AND started_at > 0`

// HadEffects reports whether calls of a turn may have changed something.
func (tx Work) HadEffects(ctx context.Context, sessionID string, turn int64) (bool, error) {
	var one int
	return tx.Get(ctx, `SELECT 1 FROM tool_calls WHERE session_id = $1 AND turn = $2 AND `+mayHaveActed+` LIMIT 1`, []any{sessionID, turn}, &one)
}

// Actions returns calls of earlier turns of a session that may have changed something: at
// most limit, the newest first, without their results.
func (tx Work) Actions(ctx context.Context, sessionID string, before int64, limit int) ([]stoa.ExternalCall, error) {
	return list(ctx, tx.Tx, toolCalls.scan, `SELECT `+callsWith(`''`)+` FROM tool_calls WHERE session_id = $1 AND turn < $2 AND `+mayHaveActed+`
		ORDER BY turn DESC, step DESC, place DESC LIMIT $3`, sessionID, before, limit)
}

// SessionCalls lists the calls of a session with the beginning of their results.
func (tx Work) SessionCalls(ctx context.Context, sessionID string, p Page) ([]stoa.ExternalCall, bool, error) {
	return page(ctx, tx.Tx, p, toolCalls.scan, `SELECT `+shownCalls+` FROM tool_calls WHERE session_id = $1`, sessionID)
}

// A CallFilter narrows a list of calls. Empty members match all.
type CallFilter struct {
	AgentID string
	Status  stoa.CallStatus
	Outcome stoa.CallOutcome
}

// ToolCalls lists the calls of an account with the beginning of their results, and returns the cursor of
// the next page, or the zero cursor. With a filter by agent, or by two conditions, a page may be short
// although there is a next one, because no index serves these.
func (tx Work) ToolCalls(ctx context.Context, accountID string, f CallFilter, p Page) ([]stoa.ExternalCall, Cursor, error) {
	q := filtered{from: `FROM tool_calls WHERE account_id = $1`, args: []any{accountID}, rest: []string{"agent_id", f.AgentID}}
	switch {
	case f.Outcome != "":
		q.args = append(q.args, string(f.Outcome))
		q.from += ` AND outcome = $2 AND outcome <> ''` // enables the partial index
		q.rest = append(q.rest, "status", string(f.Status))
	case f.Status != "":
		q.args = append(q.args, string(f.Status))
		q.from += ` AND status = $2`
	}
	return filteredPage(ctx, tx.Tx, p, q, toolCalls.scan, func(c stoa.ExternalCall) Cursor { return Cursor{At: c.CreatedAt, ID: c.ID} },
		`SELECT `+shownCalls+` FROM (`, `) c`+p.order("c"))
}

// ToolCall returns a call of an account, or CodeToolCallNotFound.
func (tx Work) ToolCall(ctx context.Context, accountID, id string) (stoa.ExternalCall, error) {
	return toolCalls.one(ctx, tx.Tx, stoa.Errorf(stoa.CodeToolCallNotFound, "There is no such tool call."), `account_id = $1 AND id = $2`, accountID, id)
}

// ResolveToolCall records a person's finding about a call.
func (tx Work) ResolveToolCall(ctx context.Context, c stoa.ExternalCall) error {
	return tx.Later(ctx, `UPDATE tool_calls SET resolution = $3, note = $4, resolved_by = $5, resolved_at = $6 WHERE account_id = $1 AND id = $2`,
		c.AccountID, c.ID, c.Resolution, c.Note, c.ResolvedBy, db.Micros(c.ResolvedAt))
}

// KeepLateOutput stores the first output that arrived after the end of a call, because the call may
// have been executed.
func (tx Work) KeepLateOutput(ctx context.Context, accountID, id, output string) error {
	return tx.Later(ctx, `UPDATE tool_calls SET late_output = $3 WHERE account_id = $1 AND id = $2 AND late_output IS NULL`, accountID, id, output)
}

// An InputFilter narrows a list of open inputs. Empty members match all.
type InputFilter struct {
	Kind      string // stoa.InputToolCall, which is that of an empty one too, stoa.InputToolApproval, or AllInputs
	AgentID   string
	Tool      string // of one of its calls
	EndUser   string
	Unclaimed bool
}

// AllInputs is the kind of all inputs about tools.
const AllInputs = "all"

// ofAgent is the condition that the agent of an input is not deleted, because its inputs are removed a
// little later.
const ofAgent = ` AND NOT EXISTS (SELECT 1 FROM agents a WHERE a.account_id = inputs.account_id AND a.id = inputs.agent_id AND a.deleted_at > 0)`

// openInputColumns are the columns of an open input i that is joined with openInputNames.
var openInputColumns = `i.account_id, i.agent_id, i.session_id, i.claim_id, a.name, s.title, s.external_user_id, i.` + strings.ReplaceAll(inputColumns, ", ", ", i.")

const openInputNames = ` i JOIN sessions s ON s.account_id = i.account_id AND s.id = i.session_id JOIN agents a ON a.account_id = i.account_id AND a.id = i.agent_id`

func scanOpenInput(rows *sql.Rows) (stoa.Input, error) {
	var s inputScan
	var session string
	v := &s.v
	if err := rows.Scan(append([]any{&v.AccountID, &v.AgentID, &session, &v.ClaimID, &v.AgentName, &v.SessionTitle, &v.ExternalUserID}, s.dest()...)...); err != nil {
		return stoa.Input{}, err
	}
	return s.done(session)
}

// OpenInputs lists the inputs of an account that wait for outputs of tools or for
// approvals, each with its calls, and returns the cursor of the next page. With a filter a
// page may be short although there is a next one.
func (tx Work) OpenInputs(ctx context.Context, accountID string, f InputFilter, p Page) ([]stoa.Input, Cursor, error) {
	kinds := `kind = 'tool_call'` // in the words of the partial indexes, since they are not used otherwise
	switch f.Kind {
	case stoa.InputToolApproval:
		kinds = `kind = 'tool_approval'`
	case AllInputs:
		kinds = `kind IN ('tool_call', 'tool_approval')`
	}
	q := filtered{
		from: `FROM inputs WHERE account_id = $1 AND status = 'pending' AND ` + kinds + ofAgent,
		args: []any{accountID}, rest: []string{"agent_id", f.AgentID},
	}
	if f.Unclaimed {
		q.tests = append(q.tests, test{"claimed_until <= $%d", db.Micros(tx.Now)})
	}
	if f.Tool != "" {
		q.tests = append(q.tests, test{`EXISTS (SELECT 1 FROM tool_calls c WHERE c.session_id = looked.session_id AND c.turn = looked.turn AND c.step = looked.step
			AND (c.input_id = looked.id OR c.approval_input_id = looked.id) AND c.tool = $%d)`, f.Tool})
	}
	if f.EndUser != "" {
		q.tests = append(q.tests, test{`EXISTS (SELECT 1 FROM sessions s WHERE s.account_id = looked.account_id AND s.id = looked.session_id AND s.external_user_id = $%d)`, f.EndUser})
	}
	rows, next, err := filteredPage(ctx, tx.Tx, p, q, scanOpenInput, func(in stoa.Input) Cursor { return Cursor{At: in.CreatedAt, ID: in.ID} },
		`SELECT `+openInputColumns+` FROM (`, `)`+openInputNames+p.order("i"))
	for i := range rows {
		if err == nil {
			rows[i].Calls, err = tx.inputCalls(ctx, rows[i])
		}
	}
	return rows, next, err
}

// OpenInput returns an input of an account with its calls, or CodeNotFound if it does not
// exist or does not concern tools.
func (tx Work) OpenInput(ctx context.Context, accountID, id string) (stoa.Input, error) {
	in, found, err := first(ctx, tx.Tx, scanOpenInput, `SELECT `+openInputColumns+` FROM inputs`+openInputNames+` WHERE i.account_id = $1 AND i.id = $2 AND a.deleted_at = 0`, accountID, id)
	if err == nil && !found {
		err = stoa.Errorf(stoa.CodeNotFound, "There is no such input.")
	}
	if err == nil {
		in.Calls, err = tx.inputCalls(ctx, in)
	}
	return in, err
}

// ClaimInput records the claim of an input. The transaction must have locked the session.
func (tx Work) ClaimInput(ctx context.Context, in stoa.Input) error {
	return tx.Later(ctx, `UPDATE inputs SET claim_id = $3, claimed_until = $4 WHERE account_id = $1 AND id = $2`,
		in.AccountID, in.ID, in.ClaimID, db.Micros(in.ClaimedUntil))
}

// AccountsWithToolCalls lists accounts with finished calls made before that time, by id and
// after the given one.
func (tx Work) AccountsWithToolCalls(ctx context.Context, before time.Time, after string, limit int) ([]string, error) {
	return tx.texts(ctx, `SELECT id FROM accounts a WHERE id > $1 AND EXISTS (SELECT 1 FROM tool_calls c WHERE c.account_id = a.id AND c.status = 'done' AND c.created_at < $2)
		ORDER BY id LIMIT $3`, after, db.Micros(before), limit)
}

// PurgeToolCalls deletes up to limit finished calls of an account made before that time;
// calls with an unknown outcome only if they were made before unsure.
func (tx Work) PurgeToolCalls(ctx context.Context, accountID string, before, unsure time.Time, limit int) (int64, error) {
	return tx.Exec(ctx, `DELETE FROM tool_calls WHERE account_id = $1 AND id IN (SELECT id FROM tool_calls
		WHERE account_id = $1 AND status = 'done' AND created_at < $2 AND (outcome NOT IN ('expired', 'unknown') OR created_at < $3) ORDER BY created_at, id LIMIT $4)`,
		accountID, db.Micros(before), db.Micros(unsure), limit)
}
