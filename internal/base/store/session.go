package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// A SessionRow is a session with the columns of the work queue, which are not part
// of the API. See docs/decisions/0020-use-session-rows-as-the-queue.md.
type SessionRow struct {
	stoa.Session
	Owner    string    // the worker that has claimed it; empty unless running
	Fence    int64     // incremented by every claim; a worker writes only under its own
	Strikes  int       // consecutive attempts without a finished step: the third failure of the turn itself ends it, or the fifth lost worker, since a dying process also ends innocent turns
	WakeAt   time.Time // no worker claims it before
	DueAt    time.Time // the next deadline or expiry; may be zero
	CancelAt time.Time // time of a cancel request; its worker, which has the text and the call, charges the output and ends the turn, or after five seconds the sweep does
	ReplyID  string    // the message with the newest finished answer
	Timezone string    // time zone of the times that the agent receives
	// ContextFrom is the first turn that the prompts contain, without the first ContextSteps of
	// its steps; 0 means all. Compacted is the newest turn with a [Compaction]. [Work.SetContext]
	// sets them.
	ContextFrom, ContextSteps, Compacted int64
	// Line is the line of visitors in which the session waits; empty if it waits for its
	// owner. MaxSpend is the maximum spending of all turns together; 0 means no limit.
	// [Setup.ServeVisitor] sets both.
	Line     string
	MaxSpend stoa.Credits
	// Config is the configuration of a draft. [Work.InsertSession] stores it; only
	// [Work.SessionConfig] reads it.
	Config *stoa.AgentSettings
}

const sessionColumns = `s.id, s.account_id, s.space_id, s.agent_id, s.key_id, s.agent_version, s.mode, s.status, s.reply_id, s.queued_messages,
	s.model_asked, s.model_served, s.fallback, s.input_tokens, s.output_tokens, s.steps, s.spent, s.last_seq,
	s.trigger_type, s.trigger_id, COALESCE(s.external_id, ''), s.external_user_id, s.title, s.metadata,
	s.max_credits, s.timeout, s.max_steps, s.revision, s.created_at, s.updated_at, s.started_at, s.finished_at,
	s.owner, s.fence, s.strikes, s.wake_at, s.due_at, s.cancel_at, s.max_spend, s.draft <> '', s.withheld, s.tool_calls, s.timezone, s.context_from, s.context_steps, s.compacted, s.line, s.reply_schema, COALESCE(m.text, ''),
	` + turnColumns + `,
	COALESCE(i.id, ''), COALESCE(i.turn, 0), COALESCE(i.step, 0), COALESCE(i.call_id, ''), COALESCE(i.kind, ''), COALESCE(i.prompt, ''), COALESCE(i.options, 'null'),
	i.default_value, COALESCE(i.status, ''), COALESCE(i.answer, ''), COALESCE(i.created_at, 0), COALESCE(i.expires_at, 0), COALESCE(i.answered_at, 0), COALESCE(i.claimed_until, 0)`

const sessionFrom = ` FROM sessions s JOIN turns t ON t.session_id = s.id AND t.number = s.turn
	LEFT JOIN messages m ON m.id = s.reply_id LEFT JOIN inputs i ON i.id = s.input_id `

// scanSession reads a row of sessionColumns: the session, its newest turn and
// the input it waits for.
func scanSession(rows *sql.Rows) (SessionRow, error) {
	var r SessionRow
	var metadata, withheld string
	var timeout, created, updated, started, finished, wake, due, cancel int64
	var t turnScan
	var i inputScan
	dest := []any{
		&r.ID, &r.AccountID, &r.SpaceID, &r.AgentID, &r.KeyID, &r.AgentVersion, &r.Mode, &r.Status, &r.ReplyID, &r.QueuedMessages,
		&r.ModelAsked, &r.ModelServed, &r.Fallback, &r.Usage.InputTokens, &r.Usage.OutputTokens, &r.Steps, &r.Spent, &r.LastSeq,
		&r.Trigger.Type, &r.Trigger.ID, &r.ExternalID, &r.ExternalUserID, &r.Title, &metadata,
		&r.Limits.MaxCredits, &timeout, &r.Limits.MaxSteps, &r.Revision, &created, &updated, &started, &finished,
		&r.Owner, &r.Fence, &r.Strikes, &wake, &due, &cancel, &r.MaxSpend, &r.Draft, &withheld, &r.ToolCalls, &r.Timezone, &r.ContextFrom, &r.ContextSteps, &r.Compacted, &r.Line, &r.ReplySchema, &r.Reply,
	}
	dest = append(dest, t.dest()...)
	dest = append(dest, i.dest()...)
	if err := rows.Scan(dest...); err != nil {
		return r, err
	}
	r.Limits.Timeout = time.Duration(timeout) * time.Microsecond
	r.CreatedAt, r.UpdatedAt, r.StartedAt, r.FinishedAt = db.Time(created), db.Time(updated), db.Time(started), db.Time(finished)
	r.WakeAt, r.DueAt, r.CancelAt = db.Time(wake), db.Time(due), db.Time(cancel)
	r.Turn = t.done(r.ID)
	if i.v.ID != "" {
		in, err := i.done(r.ID)
		if err != nil {
			return r, err
		}
		in.AccountID, in.AgentID = r.AccountID, r.AgentID
		r.Pending = &in
	}
	if err := readOptional(withheld, &r.Withheld); err != nil {
		return r, err
	}
	return r, jsonx.Unmarshal([]byte(metadata), &r.Metadata)
}

// InsertSession adds a session and its first turn. Ids must be set; it sets times and revision. An
// external id that is in use is CodeConflict.
func (tx Work) InsertSession(ctx context.Context, r *SessionRow) error {
	r.CreatedAt, r.UpdatedAt, r.Revision = tx.Now, tx.Now, 1
	metadata, err := jsonText(r.Metadata)
	withheld, draft := "", ""
	if err == nil {
		withheld, err = optionalText(r.Withheld)
	}
	if err == nil && r.Draft {
		draft, err = jsonText(r.Config)
	}
	if err != nil {
		return err
	}
	n, err := tx.Exec(ctx, `INSERT INTO sessions (id, account_id, space_id, agent_id, key_id, agent_version, mode, status, turn, reply_id, input_id, queued_messages,
			model_asked, model_served, fallback, input_tokens, output_tokens, steps, spent, last_seq,
			trigger_type, trigger_id, external_id, external_user_id, title, metadata, max_credits, timeout, max_steps,
			revision, created_at, updated_at, started_at, finished_at, owner, fence, strikes, wake_at, due_at, cancel_at, draft, withheld, timezone, reply_schema)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, '', '', 0, $10, '', 0, 0, 0, 0, 0, $11,
			$12, $13, $14, $15, $16, $17, $18, $19, $20, 1, $21, $21, 0, 0, '', 0, 0, $22, $23, 0, $24, $25, $26, $27)
		ON CONFLICT (account_id, external_id) DO NOTHING`,
		r.ID, r.AccountID, r.SpaceID, r.AgentID, r.KeyID, r.AgentVersion, string(r.Mode), string(r.Status), r.Turn.Number, r.ModelAsked, r.LastSeq,
		r.Trigger.Type, r.Trigger.ID, orNull(r.ExternalID), r.ExternalUserID, r.Title, metadata,
		int64(r.Limits.MaxCredits), r.Limits.Timeout.Microseconds(), r.Limits.MaxSteps,
		db.Micros(tx.Now), db.Micros(r.WakeAt), db.Micros(r.DueAt), draft, withheld, r.Timezone, r.ReplySchema)
	if err == nil && n == 0 {
		err = externalIDTaken("session", r.ExternalID)
	}
	if err != nil {
		return err
	}
	return tx.InsertTurn(ctx, r.Turn)
}

// Session returns a session of an account's agent, or CodeSessionNotFound if it does not
// exist or its agent has been deleted. An empty agentID matches any agent.
func (tx Work) Session(ctx context.Context, accountID, agentID, id string) (SessionRow, error) {
	r, found, err := first(ctx, tx.Tx, scanSession, `SELECT `+sessionColumns+sessionFrom+`WHERE s.account_id = $1 AND s.id = $2 AND ($3 = '' OR s.agent_id = $3)`, accountID, id, agentID)
	if err == nil && !found {
		err = stoa.Errorf(stoa.CodeSessionNotFound, "There is no such session.")
	}
	if err == nil {
		err = tx.fillCalls(ctx, &r.Session)
	}
	return r, err
}

// SessionWithExternalID returns the session of an account with an external id, of any agent. found is false if there is none.
func (tx Work) SessionWithExternalID(ctx context.Context, accountID, externalID string) (r SessionRow, found bool, err error) {
	r, found, err = first(ctx, tx.Tx, scanSession, `SELECT `+sessionColumns+sessionFrom+`WHERE s.account_id = $1 AND s.external_id = $2`, accountID, externalID)
	if err == nil && found {
		err = tx.fillCalls(ctx, &r.Session)
	}
	return r, found, err
}

func (tx Work) fillCalls(ctx context.Context, s *stoa.Session) (err error) {
	if in := s.Pending; in != nil && in.OfTools() {
		in.Calls, err = tx.inputCalls(ctx, *in)
	}
	return err
}

// SessionConfig returns the configuration of a session: its draft or else the version that
// it pinned (see [Setup.PinnedVersion]). Its limits and its time zone are those of the session.
func (tx Work) SessionConfig(ctx context.Context, r SessionRow) (c stoa.AgentSettings, err error) {
	if r.Draft {
		c, err = tx.draft(ctx, r)
	} else {
		var v stoa.AgentVersion
		v, err = tx.Setup().PinnedVersion(ctx, r.AccountID, r.AgentID, r.AgentVersion)
		c = v.AgentSettings
	}
	if own := c.CallSettings(); r.ReplySchema != stoa.AgentSchema && own.ReplySchema != r.ReplySchema {
		own.ReplySchema = r.ReplySchema // of a copy, because versions are shared
		c.Calls = &own
	}
	return c, err
}

func (tx Work) draft(ctx context.Context, r SessionRow) (stoa.AgentSettings, error) {
	var text string
	found, err := tx.Get(ctx, `SELECT draft FROM sessions WHERE account_id = $1 AND id = $2 LIMIT 1`, []any{r.AccountID, r.ID}, &text)
	if err == nil && !found {
		err = stoa.Errorf(stoa.CodeSessionNotFound, "There is no such session.")
	}
	var c stoa.AgentSettings
	if err == nil {
		err = jsonx.Unmarshal([]byte(text), &c)
	}
	return c, err
}

// LockSession is [Work.Session], and locks the row until the commit. Every transaction that writes to a
// session must lock it first, since the row is also its lease and the counter of its events.
func (tx Work) LockSession(ctx context.Context, accountID, agentID, id string) (SessionRow, error) {
	if lock := tx.ForUpdate(); lock != "" {
		// The lock is a separate statement, because PostgreSQL does not lock the nullable side of an
		// outer join, and a locking join may pair a new row with an old turn.
		if err := tx.Later(ctx, `SELECT 1 FROM sessions WHERE account_id = $1 AND id = $2`+lock, accountID, id); err != nil {
			return SessionRow{}, err
		}
	}
	return tx.Session(ctx, accountID, agentID, id)
}

// SaveSession writes the columns of a session that can change, and its newest
// turn. The row must be locked by this transaction.
func (tx Work) SaveSession(ctx context.Context, r *SessionRow) error {
	if err := tx.SaveSessionRow(ctx, r); err != nil {
		return err
	}
	return tx.UpdateTurn(ctx, r.Turn)
}

// SaveSessionRow is like [Work.SaveSession] for an unchanged turn.
func (tx Work) SaveSessionRow(ctx context.Context, r *SessionRow) error {
	r.Revision++
	r.UpdatedAt = tx.Now
	metadata, err := jsonText(r.Metadata)
	if err != nil {
		return err
	}
	input := ""
	if r.Pending != nil {
		input = r.Pending.ID
	}
	return tx.Later(ctx, `UPDATE sessions SET status = $3, turn = $4, reply_id = $5, input_id = $6, queued_messages = $7,
			model_served = $8, fallback = $9, input_tokens = $10, output_tokens = $11, steps = $12, spent = $13, last_seq = $14,
			title = $15, metadata = $16, revision = $17, updated_at = $18, started_at = $19, finished_at = $20,
			owner = $21, fence = $22, strikes = $23, wake_at = $24, due_at = $25, cancel_at = $26, tool_calls = $27
		WHERE account_id = $1 AND id = $2`,
		r.AccountID, r.ID, string(r.Status), r.Turn.Number, r.ReplyID, input, r.QueuedMessages,
		r.ModelServed, db.Bit(r.Fallback), r.Usage.InputTokens, r.Usage.OutputTokens, r.Steps, int64(r.Spent), r.LastSeq,
		r.Title, metadata, r.Revision, db.Micros(r.UpdatedAt), db.Micros(r.StartedAt), db.Micros(r.FinishedAt),
		r.Owner, r.Fence, r.Strikes, db.Micros(r.WakeAt), db.Micros(r.DueAt), db.Micros(r.CancelAt), r.ToolCalls)
}

// SetContext sets the part of a session that its prompts contain.
func (tx Work) SetContext(ctx context.Context, r *SessionRow) error {
	return tx.Later(ctx, `UPDATE sessions SET context_from = $3, context_steps = $4, compacted = $5 WHERE account_id = $1 AND id = $2`,
		r.AccountID, r.ID, r.ContextFrom, r.ContextSteps, r.Compacted)
}

// SetSessionView sets the part of the drive that the prompts of a session contain.
func (tx Work) SetSessionView(ctx context.Context, accountID, id, view string) error {
	return tx.Later(ctx, `UPDATE sessions SET drive_view = $3 WHERE account_id = $1 AND id = $2`, accountID, id, view)
}

// A SessionViews is what the prompts of a session contain of its agent's drive and tools, as JSON that only the worker reads. Empty texts are
// not stored.
type SessionViews struct {
	Drive    string
	ToolList string // hash of Tools
	Tools    string // the definitions with which the prompts begin, see [Work.KeepTools]
	ToolView string
}

// SessionViews returns the views of a session.
func (tx Work) SessionViews(ctx context.Context, accountID, id string) (v SessionViews, err error) {
	_, err = tx.Get(ctx, `SELECT s.drive_view, s.tool_list, s.tool_view, COALESCE(l.tools, '') FROM sessions s
		LEFT JOIN tool_lists l ON l.agent_id = s.agent_id AND l.sha256 = s.tool_list AND l.account_id = s.account_id
		WHERE s.account_id = $1 AND s.id = $2`, []any{accountID, id}, &v.Drive, &v.ToolList, &v.ToolView, &v.Tools)
	return v, err
}

// PersonRequestedAt returns the time at which the visitor of a session last asked for a person; zero means never.
func (tx Work) PersonRequestedAt(ctx context.Context, accountID, id string) (at time.Time, err error) {
	var micros int64
	_, err = tx.Get(ctx, `SELECT person_requested_at FROM sessions WHERE account_id = $1 AND id = $2`, []any{accountID, id}, &micros)
	return db.Time(micros), err
}

// SetPersonRequested sets the time that [Work.PersonRequestedAt] returns to now.
func (tx Work) SetPersonRequested(ctx context.Context, accountID, id string) error {
	return tx.Later(ctx, `UPDATE sessions SET person_requested_at = $3 WHERE account_id = $1 AND id = $2`, accountID, id, db.Micros(tx.Now))
}

// A PersonRequest is a session whose visitor asked for a person.
type PersonRequest struct {
	AgentID, ID, Title string
	At                 time.Time
}

// PersonRequests returns the sessions whose visitors asked for a person since a time, the latest first.
func (tx Work) PersonRequests(ctx context.Context, accountID string, since time.Time, limit int) ([]PersonRequest, error) {
	return list(ctx, tx.Tx, func(rows *sql.Rows) (r PersonRequest, err error) {
		var at int64
		err = rows.Scan(&r.AgentID, &r.ID, &r.Title, &at)
		r.At = db.Time(at)
		return r, err
	}, `SELECT agent_id, id, title, person_requested_at FROM sessions WHERE account_id = $1 AND person_requested_at > 0 AND person_requested_at >= $2
		ORDER BY person_requested_at DESC, id LIMIT $3`, accountID, db.Micros(since), limit)
}

// UpgradeSession writes the columns of a session that depend on the version of its agent.
func (tx Work) UpgradeSession(ctx context.Context, r *SessionRow) error {
	withheld, err := optionalText(r.Withheld)
	if err != nil {
		return err
	}
	return tx.Later(ctx, `UPDATE sessions SET agent_version = $3, draft = '', model_asked = $4, max_credits = $5, timeout = $6, max_steps = $7, withheld = $8, reply_schema = $9 WHERE account_id = $1 AND id = $2`,
		r.AccountID, r.ID, r.AgentVersion, r.ModelAsked, int64(r.Limits.MaxCredits), r.Limits.Timeout.Microseconds(), r.Limits.MaxSteps, withheld, r.ReplySchema)
}

// NextSeq reserves the next event number for a worker; ok reports whether the worker still
// owns the session under that fence.
func (tx Work) NextSeq(ctx context.Context, accountID, id, owner string, fence int64) (seq int64, ok bool, err error) {
	ok, err = tx.Get(ctx, `UPDATE sessions SET last_seq = last_seq + 1, revision = revision + 1
		WHERE account_id = $1 AND id = $2 AND owner = $3 AND fence = $4 AND status = 'running' RETURNING last_seq`,
		[]any{accountID, id, owner, fence}, &seq)
	return seq, ok, err
}

// A SessionFilter narrows a list of sessions. Empty members match all.
type SessionFilter struct {
	AgentID, ExternalUserID, ExternalID, TriggerType, TriggerID string
	Status                                                      stoa.SessionStatus
	Text                                                        string // a part of the title or of the ids, ignoring case
	All                                                         bool   // those of all accounts, for operators
	NoTexts                                                     bool   // Text is only compared with the ids
	Feedback                                                    string // one of its answers has this rating
}

// Sessions lists an account's sessions, or those of all accounts, also by credits (SortSpent) or
// their last change (SortUpdated), and returns the cursor of the next page, or the zero cursor.
// With a text, a filter by trigger, by feedback, by more than one of the others, or by user without an agent, a
// page may be short or empty although there is a next one, because no index serves these and it reads
// at most 2,000 sessions.
func (tx Work) Sessions(ctx context.Context, accountID string, f SessionFilter, p Page) ([]stoa.Session, Cursor, error) {
	q := filtered{from: `FROM sessions s WHERE s.account_id = $1`, args: []any{accountID}}
	if f.All {
		q = filtered{from: `FROM sessions s WHERE length(s.agent_id) > 0`}
	}
	add := func(column, value string) bool {
		if value == "" {
			return false
		}
		q.args = append(q.args, value)
		q.from += fmt.Sprintf(" AND s.%s = $%d", column, len(q.args))
		return true
	}
	one := f.All || p.By != "" // whose index has no other columns
	ofAgent := !one && add("agent_id", f.AgentID)
	if !ofAgent { // those of a deleted agent are removed later; the length keeps the indexes usable
		q.from += ` AND length(s.agent_id) > 0 AND NOT EXISTS (SELECT 1 FROM agents a WHERE a.account_id = s.account_id AND a.id = s.agent_id AND a.deleted_at > 0)`
	}
	// The first that is given selects the index.
	switch {
	case one:
		q.rest = []string{"agent_id", f.AgentID, "external_id", f.ExternalID, "external_user_id", f.ExternalUserID, "status", string(f.Status)}
	case add("external_id", f.ExternalID):
		q.rest = []string{"external_user_id", f.ExternalUserID, "status", string(f.Status)}
	case ofAgent && add("external_user_id", f.ExternalUserID):
		q.from += ` AND s.external_user_id <> ''` // enables the partial index
		q.rest = []string{"status", string(f.Status)}
	default:
		add("status", string(f.Status))
		q.rest = []string{"external_user_id", f.ExternalUserID}
	}
	q.rest = append(q.rest, "trigger_type", f.TriggerType, "trigger_id", f.TriggerID)
	if f.Feedback != "" {
		q.tests = []test{{`EXISTS (SELECT 1 FROM feedback f WHERE f.session_id = looked.id AND f.rating = $%d)`, f.Feedback}}
	}
	searched := []string{"title", "external_id", "external_user_id", "id"}
	if f.NoTexts {
		searched = searched[1:]
	}
	q.search = textSearch{f.Text, searched}
	if column := map[string]string{SortSpent: "spent", SortUpdated: "updated_at"}[p.By]; column != "" {
		rows := fmt.Sprintf(`FROM (SELECT *, %s AS sort_key FROM sessions) s`, column)
		if f.All {
			rows = fmt.Sprintf(`FROM (SELECT *, %s AS sort_key FROM sessions WHERE length(agent_id) > 0 ORDER BY created_at DESC LIMIT %d) s`, column, maxSummed)
		}
		q = q.sorted(strings.Replace(q.from, `FROM sessions s`, rows, 1), q.args...)
	}
	// The page is selected from the narrow rows first; only the selected ones are joined.
	found, next, err := filteredPage(ctx, tx.Tx, p, q, func(rows *sql.Rows) (stoa.Session, error) {
		r, err := scanSession(rows)
		return r.Session, err
	}, func(r stoa.Session) Cursor { return Cursor{At: r.CreatedAt, ID: r.ID} },
		`SELECT `+sessionColumns+` FROM (`, `) s JOIN turns t ON t.session_id = s.id AND t.number = s.turn
		LEFT JOIN messages m ON m.id = s.reply_id LEFT JOIN inputs i ON i.id = s.input_id`+p.order("s"))
	for i := range found {
		if err == nil {
			err = tx.fillCalls(ctx, &found[i])
		}
	}
	return found, next, err
}

// SessionIDs returns the ids of an agent's sessions, oldest first.
func (tx Work) SessionIDs(ctx context.Context, accountID, agentID string, limit int) ([]string, error) {
	return tx.texts(ctx, `SELECT id FROM sessions WHERE account_id = $1 AND agent_id = $2 ORDER BY created_at, id LIMIT $3`, accountID, agentID, limit)
}

// ActiveSessions returns the ids of an agent's sessions that run or are queued.
func (tx Work) ActiveSessions(ctx context.Context, accountID, agentID string) ([]string, error) {
	return tx.texts(ctx, `SELECT id FROM sessions WHERE account_id = $1 AND agent_id = $2
		AND status IN `+busyStatuses+` ORDER BY created_at, id`, accountID, agentID)
}

// WaitingSessions returns the ids of up to limit sessions of an agent that wait for input.
func (tx Work) WaitingSessions(ctx context.Context, accountID, agentID string, limit int) ([]string, error) {
	return tx.texts(ctx, `SELECT id FROM sessions WHERE account_id = $1 AND agent_id = $2
		AND status = 'waiting_for_input' ORDER BY created_at, id LIMIT $3`, accountID, agentID, limit)
}

// Sets of statuses of sessions and of runs, as SQL.
var (
	busyStatuses   = statusList(stoa.BusyStatuses)
	activeStatuses = statusList(stoa.ActiveStatuses)
	endedStatuses  = statusList(stoa.EndedStatuses)
	endedRuns      = statusList(append(slices.Clip(stoa.EndedStatuses), stoa.RunSkipped))
)

func statusList(list []stoa.SessionStatus) string {
	words := make([]string, len(list))
	for i, status := range list {
		words[i] = "'" + string(status) + "'"
	}
	return "(" + strings.Join(words, ", ") + ")"
}

// HasSession reports whether a session of an account exists.
func (tx Work) HasSession(ctx context.Context, accountID, id string) (bool, error) {
	var one int
	return tx.Get(ctx, `SELECT 1 FROM sessions WHERE account_id = $1 AND id = $2`, []any{accountID, id}, &one)
}

// RemoveSession deletes a session and all that belongs to it except its charges.
func (tx Work) RemoveSession(ctx context.Context, accountID, id string) error {
	n, err := tx.Exec(ctx, `DELETE FROM sessions WHERE account_id = $1 AND id = $2`, accountID, id)
	if err != nil || n == 0 {
		return err
	}
	for _, q := range []string{
		`DELETE FROM session_events WHERE session_id = $1`,
		`DELETE FROM sources WHERE session_id = $1`,
		`DELETE FROM tool_calls WHERE session_id = $1`,
		`DELETE FROM session_rules WHERE session_id = $1`,
		`DELETE FROM own_credentials WHERE owner_id = $1`,
		`DELETE FROM inputs WHERE session_id = $1`,
		`DELETE FROM messages WHERE session_id = $1`,
		`DELETE FROM feedback WHERE session_id = $1`,
		`DELETE FROM compactions WHERE session_id = $1`,
		`DELETE FROM step_results WHERE session_id = $1`,
		`DELETE FROM result_images WHERE session_id = $1`,
		`DELETE FROM uploads WHERE session_id = $1`,
		`DELETE FROM steps WHERE session_id = $1`,
		`DELETE FROM turns WHERE session_id = $1`,
		`UPDATE test_results SET session_id = '', reply = '', reasons = '' WHERE session_id = $1 AND session_id <> ''`,
	} {
		if _, err := tx.Exec(ctx, q, id); err != nil {
			return err
		}
	}
	return nil
}

// SessionReceipts lists the charges of a session's steps.
func (tx Work) SessionReceipts(ctx context.Context, accountID, sessionID string, p Page) ([]Receipt, bool, error) {
	return page(ctx, tx.Tx, p, receiptScan(), `SELECT `+receiptColumns+` FROM charges WHERE account_id = $1 AND session_id = $2 AND session_id <> ''`, accountID, sessionID)
}
