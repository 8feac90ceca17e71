package store

import (
	"context"
	"database/sql"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// TasksAhead returns tasks that have handled instants in the future of the clock, and whose
// cursor may be reset to now; see [Work.DueTasks]. See
// docs/decisions/0025-run-each-instant-once-despite-clock-changes.md.
func (tx Work) TasksAhead(ctx context.Context, now time.Time, limit int) ([]Ref, error) {
	return list(ctx, tx.Tx, scanRef, `SELECT account_id, id FROM tasks WHERE enabled = 1 AND deleted_at = 0 AND cursor > $1 AND planned_at <= $1 AND trimmed_at <= $1
		AND (retry_at <= $3 OR retry_at > $4) ORDER BY cursor LIMIT $2`+tx.ForUpdateUnlocked(), db.Micros(now), limit, db.Micros(tx.Now), tx.lastRetry())
}

// CountTasksStuck returns the number of tasks, limit at most, that are ahead of now
// and may not be taken back to it.
func (tx Work) CountTasksStuck(ctx context.Context, now time.Time, limit int) (n int, err error) {
	_, err = tx.Get(ctx, `SELECT COUNT(*) FROM (SELECT 1 FROM tasks WHERE enabled = 1 AND deleted_at = 0 AND cursor > $1
		AND (planned_at > $1 OR trimmed_at > $1) LIMIT $2) t`, []any{db.Micros(now), limit}, &n)
	return n, err
}

// skippedLate selects the runs that were skipped because their time had passed or their task was paused,
// not those that were skipped at their own time, for example because another run had not ended.
const skippedLate = `task_id = $1 AND status = 'skipped' AND trigger_kind <> 'manual'
	AND (trigger_kind = 'catch_up' OR skip_reason IN ('missed', 'catch_up_window', 'paused'))`

// RemoveSkipped removes runs of a task after that moment that were skipped because they
// were late, the newest first and at most limit. It returns the number of removed runs, the
// number of their instants, and the first instant.
func (tx Work) RemoveSkipped(ctx context.Context, taskID string, after time.Time, limit int) (rows int, instants int64, first time.Time, err error) {
	var oldest int64
	if _, err = tx.Get(ctx, `SELECT COUNT(*), CAST(COALESCE(SUM(instants), 0) AS BIGINT), COALESCE(MIN(scheduled_for), 0) FROM (SELECT instants, scheduled_for FROM task_runs
		WHERE `+skippedLate+` AND scheduled_for > $2 ORDER BY scheduled_for DESC LIMIT $3) t`,
		[]any{taskID, db.Micros(after), limit}, &rows, &instants, &oldest); err != nil || rows == 0 {
		return 0, 0, time.Time{}, err
	}
	_, err = tx.Exec(ctx, `DELETE FROM task_runs WHERE `+skippedLate+` AND scheduled_for >= $2`, taskID, oldest)
	return rows, instants, db.Time(oldest), err
}

// SkippedAcross returns the run of a task that covers skipped instants before and after
// that moment.
func (tx Work) SkippedAcross(ctx context.Context, taskID string, at time.Time) (stoa.TaskRun, bool, error) {
	return first(ctx, tx.Tx, taskRuns.scan, `SELECT `+runColumns+` FROM (SELECT * FROM task_runs WHERE `+skippedLate+` AND scheduled_for <= $2 AND through > $2
		ORDER BY scheduled_for DESC LIMIT 1) r`, taskID, db.Micros(at))
}

// ShortenRun changes the end and the number of the skipped instants that a run covers.
func (tx Work) ShortenRun(ctx context.Context, r stoa.TaskRun) error {
	_, err := tx.Exec(ctx, `UPDATE task_runs SET instants = $2, through = $3, revision = revision + 1 WHERE id = $1`, r.ID, r.Instants, db.Micros(r.Through))
	return err
}

// RecordedInstants returns the instants of a task's schedule that have a run, between
// two that are included, in order and at most limit.
func (tx Work) RecordedInstants(ctx context.Context, taskID string, from, through time.Time, limit int) ([]time.Time, error) {
	return list(ctx, tx.Tx, func(rows *sql.Rows) (time.Time, error) {
		var at int64
		err := rows.Scan(&at)
		return db.Time(at), err
	}, `SELECT scheduled_for FROM task_runs WHERE task_id = $1 AND trigger_kind <> 'manual' AND scheduled_for >= $2 AND scheduled_for <= $3
		ORDER BY scheduled_for LIMIT $4`, taskID, db.Micros(from), db.Micros(through), limit)
}
