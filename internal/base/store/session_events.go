package store

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// InsertEvents appends to the event log of a session. The numbers must follow the last one without a gap,
// so the transaction must have locked the session, or reserved the number with NextSeq.
// See docs/decisions/0022-one-event-log-for-every-reader.md.
func (tx Work) InsertEvents(ctx context.Context, sessionID string, events []stoa.SessionEvent) error {
	for len(events) > 0 {
		n := min(len(events), len(insertEvents))
		args := make([]any, 0, n*eventWidth)
		for _, e := range events[:n] {
			args = append(args, sessionID, e.Seq, e.Type, db.Micros(e.At), e.Data)
		}
		if err := tx.Later(ctx, insertEvents[n-1], args...); err != nil {
			return err
		}
		events = events[n:]
	}
	return nil
}

const eventWidth = 5

// insertEvents lists the INSERTs of 1, 2, … events. Few transitions emit more, so that one statement
// usually suffices.
var insertEvents = func() (texts [8]string) {
	for i := range texts {
		texts[i] = insertRows(`INSERT INTO session_events (session_id, seq, type, at, data)`, i+1, eventWidth)
	}
	return texts
}()

// Events returns at most limit events of a session after that number, in order.
func (tx Work) Events(ctx context.Context, sessionID string, after int64, limit int) ([]stoa.SessionEvent, error) {
	return list(ctx, tx.Tx, scanEvent, `SELECT seq, type, at, data FROM session_events WHERE session_id = $1 AND seq > $2 ORDER BY seq LIMIT $3`, sessionID, after, limit)
}

// Deltas returns the message deltas of a session from that event number on.
func (tx Work) Deltas(ctx context.Context, sessionID string, from int64) ([]stoa.SessionEvent, error) {
	return list(ctx, tx.Tx, scanEvent, `SELECT seq, type, at, data FROM session_events WHERE session_id = $1 AND seq >= $2 AND type = 'message.delta' ORDER BY seq`, sessionID, from)
}

func scanEvent(rows *sql.Rows) (e stoa.SessionEvent, err error) {
	var at int64
	err = rows.Scan(&e.Seq, &e.Type, &at, &e.Data)
	e.At = db.Time(at)
	return e, err
}

// LastSeqs returns the number of the newest event of each session that exists.
func (tx Work) LastSeqs(ctx context.Context, ids []string) (map[string]int64, error) {
	seqs := make(map[string]int64, len(ids))
	for len(ids) > 0 {
		n := min(len(ids), seqsTogether)
		query, args := `SELECT id, last_seq FROM sessions WHERE id = $1`, []any{ids[0]}
		if n > 1 {
			query, args = lastSeqsQuery, make([]any, seqsTogether)
			for i := range args {
				args[i] = ids[min(i, n-1)]
			}
		}
		if err := tx.Query(ctx, func(rows *sql.Rows) error {
			var id string
			var seq int64
			err := rows.Scan(&id, &seq)
			seqs[id] = seq
			return err
		}, query, args...); err != nil {
			return nil, err
		}
		ids = ids[n:]
	}
	return seqs, nil
}

// seqsTogether is the number of sessions that one query of [Work.LastSeqs] reads.
const seqsTogether = 100

var lastSeqsQuery = func() string {
	list := make([]string, seqsTogether)
	for i := range list {
		list[i] = "$" + strconv.Itoa(i+1)
	}
	return `SELECT id, last_seq FROM sessions WHERE id IN (` + strings.Join(list, ", ") + `)`
}()

// InsertSources adds passages that the answer of a turn may be based on; stored ones stay
// unchanged.
func (tx Work) InsertSources(ctx context.Context, sessionID string, sources []stoa.Source) error {
	for _, s := range sources {
		if err := tx.Later(ctx, `INSERT INTO sources (session_id, turn, path, sha256, from_line, to_line, place, via)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING`,
			sessionID, s.Turn, s.Path, s.SHA256, s.FromLine, s.ToLine, s.Place, s.Via); err != nil {
			return err
		}
	}
	return nil
}

// Sources returns at most limit passages that the answers of a session could be
// based on, of the turns from first to last, by turn and path.
func (tx Work) Sources(ctx context.Context, sessionID string, first, last int64, limit int) ([]stoa.Source, error) {
	return list(ctx, tx.Tx, func(rows *sql.Rows) (s stoa.Source, err error) {
		err = rows.Scan(&s.Turn, &s.Path, &s.SHA256, &s.FromLine, &s.ToLine, &s.Place, &s.Via)
		return s, err
	}, `SELECT turn, path, sha256, from_line, to_line, place, via FROM sources WHERE session_id = $1 AND turn >= $2 AND turn <= $3
		ORDER BY turn, path, from_line, to_line, via, sha256 LIMIT $4`, sessionID, first, last, limit)
}

// NextQueuedAccount returns the first account after the given one with a session to be claimed. Workers
// iterate over the accounts, so that none waits for the long queue of another.
func (tx Work) NextQueuedAccount(ctx context.Context, afterAccount string) (accountID string, found bool, err error) {
	found, err = tx.Get(ctx, `SELECT account_id FROM sessions WHERE status = 'queued' AND account_id > $1 AND wake_at <= $2
		ORDER BY account_id LIMIT 1`, []any{afterAccount, db.Micros(tx.Now)}, &accountID)
	return accountID, found, err
}

// An AccountQueue is the work queue of one account.
type AccountQueue struct {
	Plan    string          // plan of the account
	Running []RunningLine   // numbers of running sessions
	Next    []QueuedSession // sessions that may be claimed, the longest waiting first
}

// A RunningLine is the number of running sessions of one line.
type RunningLine struct {
	Line    string
	Visitor bool
	Count   int
}

// A QueuedSession is a session that may be claimed. Its line is a script tag or the links of
// an agent, whose visitors wait, or the agent's id for its owner's sessions.
type QueuedSession struct {
	ID, Line string
	Visitor  bool
}

// lineOf selects the line of a session, and whether visitors wait in it.
const lineOf = `CASE WHEN line <> '' THEN line ELSE agent_id END AS line, line <> '' AS visitor`

// maxQueue is the maximum number of rows that AccountQueue reads. It is rarely reached, because
// limits.queuedSessions is usually far lower.
const maxQueue = 10_000

// AccountQueue returns an account's queue, at most limit sessions of each line. On PostgreSQL it locks the
// account, so that no other worker claims its sessions before the commit.
func (tx Work) AccountQueue(ctx context.Context, accountID string, limit int) (AccountQueue, error) {
	var l AccountQueue
	if _, err := tx.Get(ctx, `SELECT plan FROM accounts WHERE id = $1`+tx.ForUpdate(), []any{accountID}, &l.Plan); err != nil {
		return l, err
	}
	var err error
	// The condition on owner holds for every row. Without it SQLite reads all sessions of the account, because it does not
	// prefer the index of the running ones.
	l.Running, err = list(ctx, tx.Tx, func(rows *sql.Rows) (r RunningLine, err error) {
		return r, rows.Scan(&r.Line, &r.Visitor, &r.Count)
	}, `SELECT line, visitor, COUNT(*) FROM (SELECT `+lineOf+` FROM sessions WHERE status = 'running' AND account_id = $1 AND owner >= '') r GROUP BY line, visitor LIMIT $2`, accountID, maxQueue)
	if err != nil {
		return l, err
	}
	l.Next, err = list(ctx, tx.Tx, func(rows *sql.Rows) (q QueuedSession, err error) {
		return q, rows.Scan(&q.ID, &q.Line, &q.Visitor)
	}, `SELECT id, line, visitor FROM (
			SELECT id, wake_at, line, visitor, ROW_NUMBER() OVER (PARTITION BY line ORDER BY wake_at, id) AS place
			FROM (SELECT id, wake_at, `+lineOf+` FROM sessions WHERE status = 'queued' AND account_id = $1 AND wake_at <= $2) q
		) p WHERE place <= $3 ORDER BY wake_at, id LIMIT $4`, accountID, db.Micros(tx.Now), limit, maxQueue)
	return l, err
}

// QueueOf selects queued sessions: all of an account, those of its visitors, or those of one
// line of visitors.
type QueueOf struct {
	Visitors bool
	Line     string
}

// QueuedSessions returns the number of an account's sessions that wait to be claimed, up to
// limit.
func (tx Work) QueuedSessions(ctx context.Context, accountID string, of QueueOf, limit int) (n int, err error) {
	// The order lets SQLite prefer the index of the queued ones, as the condition on owner does in AccountQueue.
	const query, order = `SELECT COUNT(*) FROM (SELECT 1 FROM sessions WHERE status = 'queued' AND account_id = $1`, ` ORDER BY wake_at, id LIMIT $2) q`
	switch args := []any{accountID, limit}; {
	case of.Line != "":
		_, err = tx.Get(ctx, query+` AND line = $3`+order, append(args, of.Line), &n)
	case of.Visitors:
		_, err = tx.Get(ctx, query+` AND line <> ''`+order, args, &n)
	default:
		_, err = tx.Get(ctx, query+order, args, &n)
	}
	return n, err
}

// PendingWork is the pending work of the worker.
type PendingWork struct {
	Queued  bool      // a session can be claimed if its account allows it
	Due     bool      // a deadline or expiry has passed
	Orphans bool      // a session is claimed by a worker that is gone
	Hidden  bool      // a deleted agent still has rows
	WakeAt  time.Time // the next time at which a postponed session can be claimed; may be zero
	DueAt   time.Time // the next deadline; may be zero
}

// PendingWork returns the pending work of the worker. It uses only indexes, because each poll runs it.
func (tx Work) PendingWork(ctx context.Context) (PendingWork, error) {
	var c PendingWork
	var wake, due int64
	now := db.Micros(tx.Now)
	_, err := tx.Get(ctx, `SELECT
			COALESCE((SELECT wake_at FROM sessions WHERE status = 'queued' ORDER BY wake_at LIMIT 1), -1),
			COALESCE((SELECT due_at FROM sessions WHERE due_at > 0 ORDER BY due_at LIMIT 1), 0),
			(SELECT COUNT(*) FROM (SELECT 1 FROM sessions s WHERE s.status = 'running'
				AND NOT EXISTS (SELECT 1 FROM `+livingRunners+` AND r.id = s.owner) LIMIT 1) o) > 0,
			(SELECT COUNT(*) FROM (SELECT 1 FROM agents WHERE deleted_at > 0 LIMIT 1) h) > 0`,
		nil, &wake, &due, &c.Orphans, &c.Hidden)
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

// DueSessions returns sessions whose due time has passed, the oldest first.
func (tx Work) DueSessions(ctx context.Context, limit int) ([]Ref, error) {
	return list(ctx, tx.Tx, scanRef, `SELECT account_id, id FROM sessions WHERE due_at > 0 AND due_at <= $1 ORDER BY due_at LIMIT $2`, db.Micros(tx.Now), limit)
}

// Orphans returns running sessions whose worker is gone.
func (tx Work) Orphans(ctx context.Context, limit int) ([]Ref, error) {
	return list(ctx, tx.Tx, scanRef, `SELECT s.account_id, s.id FROM sessions s WHERE s.status = 'running'
		AND NOT EXISTS (SELECT 1 FROM `+livingRunners+` AND r.id = s.owner) LIMIT $1`, limit)
}

// livingRunners selects the workers that may run sessions: each has registered and its node lives.
const livingRunners = `runners r JOIN nodes n ON n.id = r.node_id AND n.alive = 1 WHERE 1 = 1`

// SessionsOf returns the sessions that a worker has claimed.
func (tx Work) SessionsOf(ctx context.Context, runner string) ([]Ref, error) {
	return list(ctx, tx.Tx, scanRef, `SELECT account_id, id FROM sessions WHERE status = 'running' AND owner = $1`, runner)
}

// RunnerAlive reports whether a worker may run sessions.
func (tx Work) RunnerAlive(ctx context.Context, id string) (bool, error) {
	var one int
	return tx.Get(ctx, `SELECT 1 FROM `+livingRunners+` AND r.id = $1`, []any{id}, &one)
}

// BeginRunner registers a worker of this process, which ends with the node or by
// [Work.EndRunner].
func (tx Work) BeginRunner(ctx context.Context, id string) error {
	return tx.Later(ctx, `INSERT INTO runners (id, expires_at, node_id) VALUES ($1, 0, $2) ON CONFLICT (id) DO NOTHING`, id, tx.s.node)
}

// CancelledOf returns the sessions that a worker has claimed and that are to be
// cancelled.
func (tx Work) CancelledOf(ctx context.Context, runner string) ([]string, error) {
	return tx.texts(ctx, `SELECT id FROM sessions WHERE status = 'running' AND owner = $1 AND cancel_at > 0`, runner)
}

// EndRunner ends a worker: any other may take over its sessions.
func (tx Work) EndRunner(ctx context.Context, id string) error {
	_, err := tx.Exec(ctx, `DELETE FROM runners WHERE id = $1`, id)
	return err
}
