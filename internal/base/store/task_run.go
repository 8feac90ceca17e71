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

const runColumns = `r.id, r.task_id, r.account_id, r.scheduled_for, r.trigger_kind, r.status, r.skip_reason, r.waiting, r.instants, r.through,
	r.session_id, r.turn, r.delay, r.revision, r.created_at, r.started_at, r.finished_at`

// lastRunColumns are runColumns for an outer join.
const lastRunColumns = `COALESCE(r.id, ''), COALESCE(r.task_id, ''), COALESCE(r.account_id, ''), COALESCE(r.scheduled_for, 0), COALESCE(r.trigger_kind, ''),
	COALESCE(r.status, ''), COALESCE(r.skip_reason, ''), COALESCE(r.waiting, ''), COALESCE(r.instants, 0), COALESCE(r.through, 0),
	COALESCE(r.session_id, ''), COALESCE(r.turn, 0), COALESCE(r.delay, 0), COALESCE(r.revision, 0), COALESCE(r.created_at, 0), COALESCE(r.started_at, 0), COALESCE(r.finished_at, 0)`

// runScan has the scanned columns of a run; done returns the run.
type runScan struct {
	run                                                   stoa.TaskRun
	scheduled, through, delay, created, started, finished int64
}

func (s *runScan) dest() []any {
	r := &s.run
	return []any{
		&r.ID, &r.TaskID, &r.AccountID, &s.scheduled, &r.Trigger, &r.Status, &r.SkipReason, &r.Waiting, &r.Instants, &s.through,
		&r.SessionID, &r.Turn, &s.delay, &r.Revision, &s.created, &s.started, &s.finished,
	}
}

func (s *runScan) done() stoa.TaskRun {
	r := s.run
	r.ScheduledFor, r.Through, r.Delay = db.Time(s.scheduled), db.Time(s.through), micros(s.delay)
	r.CreatedAt, r.StartedAt, r.FinishedAt = db.Time(s.created), db.Time(s.started), db.Time(s.finished)
	return r
}

func scanRun(rows *sql.Rows) (stoa.TaskRun, error) {
	var s runScan
	err := rows.Scan(s.dest()...)
	return s.done(), err
}

// scanRunWithTurn reads a row of runColumns, followed by the failure and the cost of the turn.
func scanRunWithTurn(rows *sql.Rows) (stoa.TaskRun, error) {
	var s runScan
	var f stoa.Failure
	err := rows.Scan(append(s.dest(), &f.Code, &f.Message, &f.Retryable, &s.run.Spent)...)
	if f.Code != "" {
		s.run.Failure = &f
	}
	return s.done(), err
}

// runsAtOnce is the number of rows that one statement inserts.
const runsAtOnce = 50

// InsertRuns adds runs of a task that this transaction has locked; empty IDs are
// filled in, and times of creation set. An instant of the schedule that is stored
// already is an error: no instant may happen twice.
func (tx *Tx) InsertRuns(ctx context.Context, runs []stoa.TaskRun) error {
	for len(runs) > 0 {
		n := min(len(runs), runsAtOnce)
		var b strings.Builder
		b.WriteString(`INSERT INTO task_runs (id, task_id, account_id, scheduled_for, trigger_kind, status, skip_reason, waiting, instants, through,
			session_id, turn, delay, revision, settle, created_at, started_at, finished_at) VALUES `)
		args := make([]any, 0, n*14)
		for i := range runs[:n] {
			r := &runs[i]
			if r.ID == "" {
				r.ID = stoa.NewID("run")
			}
			if r.Instants == 0 {
				r.Instants = 1
			}
			r.CreatedAt, r.Revision = tx.Now, 1
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString("(")
			for range 13 {
				b.WriteString("$" + strconv.Itoa(len(args)+1) + ", ")
				args = append(args, nil)
			}
			copy(args[len(args)-13:], []any{
				r.ID, r.TaskID, r.AccountID, db.Micros(r.ScheduledFor), r.Trigger, r.Status, r.SkipReason, r.Waiting, r.Instants, db.Micros(r.Through),
				r.SessionID, r.Turn, r.Delay.Microseconds(),
			})
			args = append(args, db.Micros(tx.Now))
			b.WriteString("1, 0, $" + strconv.Itoa(len(args)) + ", 0, 0)")
		}
		if _, err := tx.Exec(ctx, b.String(), args...); err != nil {
			return err
		}
		runs = runs[n:]
	}
	return nil
}

// SaveRun records that a waiting run starts or is skipped. It reports whether the
// run still waited.
func (tx *Tx) SaveRun(ctx context.Context, r *stoa.TaskRun) (bool, error) {
	r.Revision++
	n, err := tx.Exec(ctx, `UPDATE task_runs SET status = $2, skip_reason = $3, waiting = $4, session_id = $5, turn = $6, delay = $7, revision = revision + 1
		WHERE id = $1 AND waiting <> ''`, r.ID, r.Status, r.SkipReason, r.Waiting, r.SessionID, r.Turn, r.Delay.Microseconds())
	return n > 0, err
}

// TurnOfRun writes the status of a turn to the run that started it, if any. The
// session must be locked by this transaction. The end of another turn of the
// session frees it for runs that wait for it.
func (tx *Tx) TurnOfRun(ctx context.Context, s stoa.Session) error {
	t := s.Turn
	ended := t.Status.Ended()
	if t.StartedAt.IsZero() && t.Status == stoa.SessionRunning {
		t.StartedAt = tx.Now
	}
	n, err := tx.Exec(ctx, `UPDATE task_runs SET status = $3, started_at = $4, finished_at = $5, settle = $6, revision = revision + 1
		WHERE session_id = $1 AND session_id <> '' AND turn = $2 AND status <> $3`,
		s.ID, t.Number, string(t.Status), db.Micros(t.StartedAt), db.Micros(t.FinishedAt), db.Bit(ended))
	if err != nil || n > 0 || !ended {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE task_runs SET settle = 1 WHERE waiting = 'overlap' AND status IN `+activeStatuses+`
		AND task_id = (SELECT task_id FROM task_runs WHERE id = $1)`, s.Trigger.ID)
	return err
}

// ActiveRuns returns a task's runs that have not ended, waiting ones included,
// oldest first.
func (tx *Tx) ActiveRuns(ctx context.Context, taskID string) ([]stoa.TaskRun, error) {
	return tx.runs(ctx, `SELECT `+runColumns+` FROM task_runs r WHERE r.task_id = $1 AND r.status IN `+activeStatuses+`
		ORDER BY r.scheduled_for, r.id`, taskID)
}

// SettleRuns returns the ended runs of a task that are not counted yet, in the
// order in which they ended, and marks them as counted.
func (tx *Tx) SettleRuns(ctx context.Context, taskID string) ([]stoa.TaskRun, error) {
	runs, err := tx.runs(ctx, `SELECT `+runColumns+` FROM task_runs r WHERE r.task_id = $1 AND r.settle = 1 ORDER BY r.finished_at, r.scheduled_for, r.id`, taskID)
	if err != nil {
		return nil, err
	}
	ended := runs[:0]
	for _, r := range runs {
		if _, err := tx.Exec(ctx, `UPDATE task_runs SET settle = 0 WHERE id = $1`, r.ID); err != nil {
			return nil, err
		}
		if r.Waiting == "" {
			ended = append(ended, r)
		}
	}
	return ended, nil
}

func (tx *Tx) runs(ctx context.Context, query string, args ...any) ([]stoa.TaskRun, error) {
	return list(ctx, tx, scanRun, query, args...)
}

// TaskRuns lists the runs of a task that was read in this transaction, by their
// instants, with the failures and the costs of their turns. Page.After.At is an instant too.
func (tx *Tx) TaskRuns(ctx context.Context, accountID, taskID string, p Page) ([]stoa.TaskRun, bool, error) {
	op, dir := "<", "DESC"
	if p.Asc {
		op, dir = ">", "ASC"
	}
	args, where := []any{accountID, taskID, p.limit() + 1}, ""
	if p.After != (Cursor{}) {
		where = ` AND (r.scheduled_for, r.id) ` + op + ` ($4, $5)`
		args = append(args, db.Micros(p.After.At), p.After.ID)
	}
	return listPage(ctx, tx, p, scanRunWithTurn, `SELECT `+runColumns+`, COALESCE(t.failure_code, ''), COALESCE(t.failure_message, ''), COALESCE(t.failure_retryable, 0), COALESCE(t.spent, 0)
		FROM task_runs r LEFT JOIN turns t ON t.session_id = r.session_id AND t.number = r.turn WHERE r.account_id = $1 AND r.task_id = $2`+where+
		` ORDER BY r.scheduled_for `+dir+`, r.id `+dir+` LIMIT $3`, args...)
}

// TrimRuns removes the oldest ended runs of a task beyond the newest keep. It keeps runs of
// instants after through, which prove that these have run. It returns the time up to which
// runs of the schedule may be missing, or zero if it removed none.
func (tx *Tx) TrimRuns(ctx context.Context, taskID string, keep int, through time.Time) (time.Time, error) {
	var oldest int64
	found, err := tx.Get(ctx, `SELECT scheduled_for FROM task_runs WHERE task_id = $1 ORDER BY scheduled_for DESC LIMIT 1 OFFSET $2`, []any{taskID, keep}, &oldest)
	if err != nil || !found {
		return time.Time{}, err
	}
	n, err := tx.Exec(ctx, `DELETE FROM task_runs WHERE task_id = $1 AND status IN `+endedRuns+` AND settle = 0
		AND scheduled_for < $2 AND (scheduled_for <= $3 OR trigger_kind = 'manual')`, taskID, oldest, db.Micros(through))
	if err != nil || n == 0 {
		return time.Time{}, err
	}
	return db.Time(min(oldest, db.Micros(through))), nil
}
