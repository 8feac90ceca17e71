package store

import (
	"context"
	"database/sql"
	"time"

	"stoa/internal/db"
	"stoa/internal/stoa"
)

// InsertEvents adds to the log of a session. Their numbers must follow the last
// one's; the session is locked in this transaction, or the number was taken with
// NextSeq.
// See docs/decisions/0022-one-event-log-for-every-reader.md.
func (tx *Tx) InsertEvents(ctx context.Context, sessionID string, events []stoa.SessionEvent) error {
	for _, e := range events {
		if _, err := tx.Exec(ctx, `INSERT INTO session_events (session_id, seq, type, at, data) VALUES ($1, $2, $3, $4, $5)`,
			sessionID, e.Seq, e.Type, db.Micros(e.At), e.Data); err != nil {
			return err
		}
	}
	return nil
}

// Events gives at most limit events of a session after that number, in order.
func (tx *Tx) Events(ctx context.Context, sessionID string, after int64, limit int) ([]stoa.SessionEvent, error) {
	return tx.events(ctx, `SELECT seq, type, at, data FROM session_events WHERE session_id = $1 AND seq > $2 ORDER BY seq LIMIT $3`, sessionID, after, limit)
}

// Deltas gives the deltas of a session from that number on.
func (tx *Tx) Deltas(ctx context.Context, sessionID string, from int64) ([]stoa.SessionEvent, error) {
	return tx.events(ctx, `SELECT seq, type, at, data FROM session_events WHERE session_id = $1 AND seq >= $2 AND type = 'message.delta' ORDER BY seq`, sessionID, from)
}

func (tx *Tx) events(ctx context.Context, query string, args ...any) ([]stoa.SessionEvent, error) {
	var list []stoa.SessionEvent
	err := tx.Query(ctx, func(rows *sql.Rows) error {
		var e stoa.SessionEvent
		var at int64
		err := rows.Scan(&e.Seq, &e.Type, &at, &e.Data)
		e.At = db.Time(at)
		list = append(list, e)
		return err
	}, query, args...)
	return list, err
}

// LastSeqs tells the number of the newest event of each session.
func (tx *Tx) LastSeqs(ctx context.Context, ids []string) (map[string]int64, error) {
	seqs := make(map[string]int64, len(ids))
	for _, id := range ids {
		var seq int64
		found, err := tx.Get(ctx, `SELECT last_seq FROM sessions WHERE id = $1`, []any{id}, &seq)
		if err != nil {
			return nil, err
		}
		if found {
			seqs[id] = seq
		}
	}
	return seqs, nil
}

// InsertSources adds what answers of a turn could rest on; what is there already
// stays as it is.
func (tx *Tx) InsertSources(ctx context.Context, sessionID string, sources []stoa.Source) error {
	for _, s := range sources {
		if _, err := tx.Exec(ctx, `INSERT INTO sources (session_id, turn, path, sha256, from_line, to_line, via)
			VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING`,
			sessionID, s.Turn, s.Path, s.SHA256, s.FromLine, s.ToLine, s.Via); err != nil {
			return err
		}
	}
	return nil
}

// Sources gives what the answers of a session could rest on, by turn and path.
// turn 0 is all of them.
func (tx *Tx) Sources(ctx context.Context, sessionID string, turn int64) ([]stoa.Source, error) {
	var list []stoa.Source
	err := tx.Query(ctx, func(rows *sql.Rows) error {
		var s stoa.Source
		err := rows.Scan(&s.Turn, &s.Path, &s.SHA256, &s.FromLine, &s.ToLine, &s.Via)
		list = append(list, s)
		return err
	}, `SELECT turn, path, sha256, from_line, to_line, via FROM sources WHERE session_id = $1 AND ($2 = 0 OR turn = $2)
		ORDER BY turn, path, from_line, to_line, via, sha256`, sessionID, turn)
	return list, err
}

// NextInLine gives the next account, by id and after the given one, that has a
// session to be claimed. Going round this way, no account waits for another's
// long queue.
func (tx *Tx) NextInLine(ctx context.Context, afterAccount string) (accountID string, found bool, err error) {
	found, err = tx.Get(ctx, `SELECT account_id FROM sessions WHERE status = 'queued' AND account_id > $1 AND wake_at <= $2
		ORDER BY account_id LIMIT 1`, []any{afterAccount, db.Micros(tx.Now)}, &accountID)
	return accountID, found, err
}

// A Line is an account's place in the queue.
type Line struct {
	Plan    string   // the account's
	Running int      // sessions of the account that run
	Next    []string // sessions that may be claimed, those that have waited longest first
}

// Line looks at an account's queue, at most limit sessions of it. On PostgreSQL
// it keeps others from claiming of this account until the commit.
func (tx *Tx) Line(ctx context.Context, accountID string, limit int) (Line, error) {
	var l Line
	if _, err := tx.Get(ctx, `SELECT plan FROM accounts WHERE id = $1`+tx.ForUpdate(), []any{accountID}, &l.Plan); err != nil {
		return l, err
	}
	_, err := tx.Get(ctx, `SELECT COUNT(*) FROM sessions WHERE status = 'running' AND account_id = $1`, []any{accountID}, &l.Running)
	if err != nil {
		return l, err
	}
	l.Next, err = tx.texts(ctx, `SELECT id FROM sessions WHERE status = 'queued' AND account_id = $1 AND wake_at <= $2
		ORDER BY wake_at, id LIMIT $3`, accountID, db.Micros(tx.Now), limit)
	return l, err
}

// QueuedSessions counts an account's sessions that wait to be claimed, up to
// limit.
func (tx *Tx) QueuedSessions(ctx context.Context, accountID string, limit int) (n int, err error) {
	_, err = tx.Get(ctx, `SELECT COUNT(*) FROM (SELECT 1 FROM sessions WHERE status = 'queued' AND account_id = $1 LIMIT $2) q`, []any{accountID, limit}, &n)
	return n, err
}

// Chores is what there is to do in the house, as one cheap look tells.
type Chores struct {
	Queued  bool      // a session can be claimed, as far as its account lets it
	Due     bool      // a deadline or expiry has passed
	Orphans bool      // a session is claimed by a runner that is gone
	Hidden  bool      // a deleted agent still has rows
	WakeAt  time.Time // when the next session that may not be claimed yet may be; zero: none
	DueAt   time.Time // the next deadline; zero: none
}

// Chores looks for what there is to do, without scanning any table.
func (tx *Tx) Chores(ctx context.Context) (Chores, error) {
	var c Chores
	var wake, due int64
	now := db.Micros(tx.Now)
	_, err := tx.Get(ctx, `SELECT
			COALESCE((SELECT wake_at FROM sessions WHERE status = 'queued' ORDER BY wake_at LIMIT 1), -1),
			COALESCE((SELECT due_at FROM sessions WHERE due_at > 0 ORDER BY due_at LIMIT 1), 0),
			(SELECT COUNT(*) FROM (SELECT 1 FROM sessions s WHERE s.status = 'running'
				AND NOT EXISTS (SELECT 1 FROM runners r WHERE r.id = s.owner AND r.expires_at > $1) LIMIT 1) o) > 0,
			(SELECT COUNT(*) FROM (SELECT 1 FROM agents WHERE deleted_at > 0 LIMIT 1) h) > 0`,
		[]any{now}, &wake, &due, &c.Orphans, &c.Hidden)
	if err != nil {
		return c, err
	}
	c.Queued = wake >= 0 && wake <= now
	if wake > now {
		c.WakeAt = db.Time(wake)
	}
	c.Due = due > 0 && due <= now
	c.DueAt = db.Time(due)
	return c, nil
}

// DueSessions gives sessions whose due time has passed, the oldest first.
func (tx *Tx) DueSessions(ctx context.Context, limit int) ([]Ref, error) {
	return tx.refs(ctx, `SELECT account_id, id FROM sessions WHERE due_at > 0 AND due_at <= $1 ORDER BY due_at LIMIT $2`, db.Micros(tx.Now), limit)
}

// Orphans gives running sessions whose runner is gone.
func (tx *Tx) Orphans(ctx context.Context, limit int) ([]Ref, error) {
	return tx.refs(ctx, `SELECT s.account_id, s.id FROM sessions s WHERE s.status = 'running'
		AND NOT EXISTS (SELECT 1 FROM runners r WHERE r.id = s.owner AND r.expires_at > $1) LIMIT $2`, db.Micros(tx.Now), limit)
}

// SessionsOf gives the sessions that a runner has claimed.
func (tx *Tx) SessionsOf(ctx context.Context, runner string) ([]Ref, error) {
	return tx.refs(ctx, `SELECT account_id, id FROM sessions WHERE status = 'running' AND owner = $1`, runner)
}

// RunnerAlive reports whether a runner's leases still hold.
func (tx *Tx) RunnerAlive(ctx context.Context, id string) (bool, error) {
	var one int
	return tx.Get(ctx, `SELECT 1 FROM runners WHERE id = $1 AND expires_at > $2`, []any{id, db.Micros(tx.Now)}, &one)
}

// Beat makes a runner's leases hold until then, and tells which of its sessions
// a cancel was asked for.
func (tx *Tx) Beat(ctx context.Context, id string, until time.Time) (cancelled []string, err error) {
	if _, err := tx.Exec(ctx, `INSERT INTO runners (id, expires_at) VALUES ($1, $2)
		ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at`, id, db.Micros(until)); err != nil {
		return nil, err
	}
	return tx.texts(ctx, `SELECT id FROM sessions WHERE status = 'running' AND owner = $1 AND cancel_at > 0`, id)
}

// EndRunners makes the leases of all runners void but those of the given one,
// which may be empty: of a process that is alone on its store.
func (tx *Tx) EndRunners(ctx context.Context, but string) error {
	_, err := tx.Exec(ctx, `DELETE FROM runners WHERE id <> $1`, but)
	return err
}

// EndRunner makes the leases of one runner void.
func (tx *Tx) EndRunner(ctx context.Context, id string) error {
	_, err := tx.Exec(ctx, `DELETE FROM runners WHERE id = $1`, id)
	return err
}
