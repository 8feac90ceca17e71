package store

import (
	"context"
	"database/sql"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

var (
	taskRuns   = newTable[stoa.TaskRun]("task_runs")
	runColumns = taskRuns.columnsOf("r.")
)

// scanRunWithTurn reads a row of runColumns, followed by the failure and the cost of the turn.
func scanRunWithTurn(rows *sql.Rows) (r stoa.TaskRun, err error) {
	var f stoa.Failure
	err = rows.Scan(append(taskRuns.dest(&r), &f.Code, &f.Message, &f.Retryable, &r.Spent)...)
	if f.Code != "" {
		r.Failure = &f
	}
	return r, err
}

// runsAtOnce is the number of rows that one statement inserts.
const runsAtOnce = 50

// InsertRuns adds runs of a task that this transaction has locked; empty IDs are
// filled in, and times of creation set. An instant of the schedule that is stored
// already is an error: no instant may happen twice.
func (tx Work) InsertRuns(ctx context.Context, runs []stoa.TaskRun) (err error) {
	for len(runs) > 0 {
		n := min(len(runs), runsAtOnce)
		width := len(taskRuns.fields) + 1
		args := make([]any, 0, n*width)
		for i := range runs[:n] {
			r := &runs[i]
			if r.ID == "" {
				r.ID = stoa.NewID("run")
			}
			if r.Instants == 0 {
				r.Instants = 1
			}
			r.CreatedAt, r.Revision = tx.Now, 1
			if args, err = taskRuns.appendValues(args, r); err != nil {
				return err
			}
			args = append(args, 0)
		}
		if _, err := tx.Exec(ctx, insertRows(`INSERT INTO task_runs (`+taskRuns.columns+`, settle)`, n, width), args...); err != nil {
			return err
		}
		runs = runs[n:]
	}
	return nil
}

// SaveRun records that a waiting run starts or is skipped. It reports whether the
// run still waited.
func (tx Work) SaveRun(ctx context.Context, r *stoa.TaskRun) (bool, error) {
	r.Revision++
	n, err := tx.Exec(ctx, `UPDATE task_runs SET status = $2, skip_reason = $3, waiting = $4, session_id = $5, turn = $6, delay = $7, revision = revision + 1
		WHERE id = $1 AND waiting <> ''`, r.ID, r.Status, r.SkipReason, r.Waiting, r.SessionID, r.Turn, r.Delay.Microseconds())
	return n > 0, err
}

// TurnOfRun writes the status of a turn to the run that started it, if any. The
// session must be locked by this transaction. The end of another turn of the
// session frees it for runs that wait for it.
func (tx Work) TurnOfRun(ctx context.Context, s stoa.Session) error {
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
func (tx Work) ActiveRuns(ctx context.Context, taskID string) ([]stoa.TaskRun, error) {
	return tx.runs(ctx, `SELECT `+runColumns+` FROM task_runs r WHERE r.task_id = $1 AND r.status IN `+activeStatuses+`
		ORDER BY r.scheduled_for, r.id`, taskID)
}

// SettleRuns returns the ended runs of a task that are not counted yet, in the
// order in which they ended, and marks them as counted.
func (tx Work) SettleRuns(ctx context.Context, taskID string) ([]stoa.TaskRun, error) {
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

func (tx Work) runs(ctx context.Context, query string, args ...any) ([]stoa.TaskRun, error) {
	return list(ctx, tx.Tx, taskRuns.scan, query, args...)
}

// TaskRuns lists the runs of a task that was read in this transaction, by their
// instants, with the failures and the costs of their turns. Page.After.At is an instant too.
func (tx Work) TaskRuns(ctx context.Context, accountID, taskID string, p Page) ([]stoa.TaskRun, bool, error) {
	op, dir := "<", "DESC"
	if p.Asc {
		op, dir = ">", "ASC"
	}
	args, where := []any{accountID, taskID, p.limit() + 1}, ""
	if p.After != (Cursor{}) {
		where = ` AND (r.scheduled_for, r.id) ` + op + ` ($4, $5)`
		args = append(args, db.Micros(p.After.At), p.After.ID)
	}
	return listPage(ctx, tx.Tx, p, scanRunWithTurn, `SELECT `+runColumns+`, COALESCE(t.failure_code, ''), COALESCE(t.failure_message, ''), COALESCE(t.failure_retryable, 0), COALESCE(t.spent, 0)
		FROM task_runs r LEFT JOIN turns t ON t.session_id = r.session_id AND t.number = r.turn WHERE r.account_id = $1 AND r.task_id = $2`+where+
		` ORDER BY r.scheduled_for `+dir+`, r.id `+dir+` LIMIT $3`, args...)
}

// TrimRuns removes the oldest ended runs of a task beyond the newest keep. It keeps runs of
// instants after through, which prove that these have run. It returns the time up to which
// runs of the schedule may be missing, or zero if it removed none.
func (tx Work) TrimRuns(ctx context.Context, taskID string, keep int, through time.Time) (time.Time, error) {
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
