package store

import (
	"context"
	"database/sql"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

var (
	tasks       = newTable[stoa.ScheduledTask]("tasks")
	taskColumns = tasks.columnsOf("t.") + `, ` + taskRuns.columnsOrZero("r.")
)

const taskFrom = ` FROM tasks t LEFT JOIN task_runs r ON r.id = t.last_run_id `

func scanTask(rows *sql.Rows) (t stoa.ScheduledTask, err error) {
	var r stoa.TaskRun
	err = rows.Scan(append(tasks.dest(&t), taskRuns.dest(&r)...)...)
	if r.ID != "" {
		t.LastRun = &r
	}
	return t, err
}

// lastRunID returns the id of a task's last run, or "".
func lastRunID(t *stoa.ScheduledTask) string {
	if t.LastRun == nil {
		return ""
	}
	return t.LastRun.ID
}

// InsertTask adds a scheduled task. An empty ID is filled in; revision and times
// of creation are set.
func (tx Work) InsertTask(ctx context.Context, t stoa.ScheduledTask) (stoa.ScheduledTask, error) {
	if err := tx.taskQuota(ctx, t.AccountID); err != nil {
		return t, err
	}
	if t.ID == "" {
		t.ID = stoa.NewID("tsk")
	}
	t.Revision, t.CreatedAt, t.UpdatedAt = 1, tx.Now, tx.Now
	_, err := tasks.insert(ctx, tx.Tx, &t, "", "last_run_id", lastRunID(&t), "deleted_at", 0, "retry_at", 0)
	return t, err
}

// SaveTask writes the columns of a task that can change. The task must be locked
// by this transaction.
func (tx Work) SaveTask(ctx context.Context, t *stoa.ScheduledTask) error {
	return tasks.update(ctx, tx.Tx, t.AccountID, t.ID, t, "last_run_id", lastRunID(t))
}

// Task returns a scheduled task of an account's agent, or CodeTaskNotFound. An empty
// agentID matches any agent.
func (tx Work) Task(ctx context.Context, accountID, agentID, id string) (t stoa.ScheduledTask, err error) {
	t, found, err := first(ctx, tx.Tx, scanTask, `SELECT `+taskColumns+taskFrom+`WHERE t.account_id = $1 AND t.id = $2 AND ($3 = '' OR t.agent_id = $3) AND t.deleted_at = 0`, accountID, id, agentID)
	if err == nil && !found {
		err = noTask()
	}
	return t, err
}

func noTask() error { return stoa.Errorf(stoa.CodeTaskNotFound, "There is no such scheduled task.") }

// LockTask is [Work.Task], and locks the row until the commit. Every transaction
// that writes to a task must lock it first, except [Work.TurnOfRun].
func (tx Work) LockTask(ctx context.Context, accountID, agentID, id string) (stoa.ScheduledTask, error) {
	if lock := tx.ForUpdate(); lock != "" {
		var one int
		if _, err := tx.Get(ctx, `SELECT 1 FROM tasks WHERE account_id = $1 AND id = $2`+lock, []any{accountID, id}, &one); err != nil {
			return stoa.ScheduledTask{}, err
		}
	}
	return tx.Task(ctx, accountID, agentID, id)
}

// CountTasks returns the number of an agent's tasks.
func (tx Work) CountTasks(ctx context.Context, accountID, agentID string) (n int, err error) {
	_, err = tx.Get(ctx, `SELECT COUNT(*) FROM tasks WHERE account_id = $1 AND agent_id = $2 AND deleted_at = 0`, []any{accountID, agentID}, &n)
	return n, err
}

// A TaskFilter narrows a list of tasks. Empty members match all.
type TaskFilter struct {
	AgentID, SpaceID string
	Text             string // a part of the name, the message or the id, ignoring case; see [Setup.Agents]
}

// Tasks lists an account's scheduled tasks.
func (tx Work) Tasks(ctx context.Context, accountID string, f TaskFilter, p Page) ([]stoa.ScheduledTask, Cursor, error) {
	args, cond := narrow([]any{accountID}, "agent_id", f.AgentID)
	if f.SpaceID != "" {
		args = append(args, f.SpaceID)
		cond += ` AND agent_id IN (SELECT id FROM agents WHERE account_id = $1 AND space_id = $2 AND deleted_at = 0)`
	}
	q := filtered{from: `FROM tasks WHERE account_id = $1 AND deleted_at = 0` + cond, args: args, search: textSearch{f.Text, []string{"name", "message", "id"}}}
	return filteredPage(ctx, tx.Tx, p, q, scanTask, func(t stoa.ScheduledTask) Cursor { return Cursor{At: t.CreatedAt, ID: t.ID} },
		`SELECT `+taskColumns+` FROM (`, `) t LEFT JOIN task_runs r ON r.id = t.last_run_id`+p.order("t"))
}

// FailingTasks returns an account's tasks whose last turns failed, unless a person paused them, the most failures first.
func (tx Work) FailingTasks(ctx context.Context, accountID string, limit int) ([]stoa.ScheduledTask, error) {
	return list(ctx, tx.Tx, tasks.scan, `SELECT `+tasks.columns+` FROM tasks WHERE account_id = $1 AND failures > 0 AND (enabled = 1 OR pause_reason = 'failures') AND deleted_at = 0 ORDER BY failures DESC, id LIMIT $2`, accountID, limit)
}

// DueTasks returns tasks whose next instant is due, the oldest first. On PostgreSQL it locks them until
// the commit and skips those that another process has locked, so that two processes never work on the
// same task. See docs/decisions/0025-run-each-instant-once-despite-clock-changes.md.
func (tx Work) DueTasks(ctx context.Context, now time.Time, limit int) ([]Ref, error) {
	return list(ctx, tx.Tx, scanRef, `SELECT account_id, id FROM tasks WHERE next_at > 0 AND next_at <= $1 AND (retry_at <= $3 OR retry_at > $4) ORDER BY next_at LIMIT $2`+tx.ForUpdateUnlocked(),
		db.Micros(now), limit, db.Micros(tx.Now), tx.lastRetry())
}

// TasksToSettle returns tasks with ended runs that are not yet counted; see [Work.DueTasks].
func (tx Work) TasksToSettle(ctx context.Context, limit int) ([]Ref, error) {
	return list(ctx, tx.Tx, scanRef, `SELECT account_id, id FROM tasks WHERE id IN (SELECT DISTINCT task_id FROM task_runs WHERE settle = 1 LIMIT $1) AND (retry_at <= $2 OR retry_at > $3)`+tx.ForUpdateUnlocked(),
		limit, db.Micros(tx.Now), tx.lastRetry())
}

// AccountsWaitingForCapacity returns the accounts that have runs which wait for
// a place in the queue of sessions.
func (tx Work) AccountsWaitingForCapacity(ctx context.Context) ([]string, error) {
	return tx.texts(ctx, `SELECT DISTINCT account_id FROM task_runs WHERE waiting = 'capacity' ORDER BY account_id`)
}

// TasksWaitingForCapacity returns tasks of an account whose runs wait for a place in the
// queue of sessions, the longest waiting first; see [Work.DueTasks].
func (tx Work) TasksWaitingForCapacity(ctx context.Context, accountID string, limit int) ([]Ref, error) {
	ids, err := tx.texts(ctx, `SELECT task_id FROM task_runs WHERE waiting = 'capacity' AND account_id = $1
		AND EXISTS (SELECT 1 FROM tasks t WHERE t.id = task_runs.task_id AND (t.retry_at <= $3 OR t.retry_at > $4)) ORDER BY scheduled_for, id LIMIT $2`, accountID, limit, db.Micros(tx.Now), tx.lastRetry())
	var refs []Ref
	seen := map[string]bool{}
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			refs = append(refs, Ref{accountID, id})
		}
	}
	return refs, err
}

// PendingTaskWork is the pending work of the scheduler.
type PendingTaskWork struct {
	NextAt   time.Time // the next instant of any task; may be zero
	Settle   bool      // ended runs are not counted yet
	Capacity bool      // runs wait for a place in the queue of sessions
	Deleted  bool      // deleted tasks still have rows
}

// PendingTaskWork returns the pending work of the scheduler. It uses only indexes, because each poll runs it.
func (tx Work) PendingTaskWork(ctx context.Context) (PendingTaskWork, error) {
	var c PendingTaskWork
	var next int64
	_, err := tx.Get(ctx, `SELECT COALESCE((SELECT next_at FROM tasks WHERE next_at > 0 ORDER BY next_at LIMIT 1), 0),
			(SELECT COUNT(*) FROM (SELECT 1 FROM task_runs WHERE settle = 1 LIMIT 1) s) > 0,
			(SELECT COUNT(*) FROM (SELECT 1 FROM task_runs WHERE waiting = 'capacity' LIMIT 1) w) > 0,
			(SELECT COUNT(*) FROM (SELECT 1 FROM tasks WHERE deleted_at > 0 LIMIT 1) d) > 0`, nil, &next, &c.Settle, &c.Capacity, &c.Deleted)
	c.NextAt = db.Time(next)
	return c, err
}

// putOff is the time for which a task that failed is postponed, so that the others proceed.
const putOff = time.Minute

// PutOffTask excludes a task from [Work.DueTasks] and the like for a minute.
func (tx Work) PutOffTask(ctx context.Context, accountID, id string) error {
	_, err := tx.Exec(ctx, `UPDATE tasks SET retry_at = $3 WHERE account_id = $1 AND id = $2`, accountID, id, db.Micros(tx.Now.Add(putOff)))
	return err
}

// lastRetry is the latest time to which the present clock can have postponed a task. A task that is
// postponed for longer is not skipped, because a clock that was ahead has postponed it.
func (tx Work) lastRetry() int64 { return db.Micros(tx.Now.Add(putOff)) }

// HideTask marks a task as deleted: lists and queries no longer find it, and its waiting
// runs never start. It fails with CodeTaskNotFound if the task does not exist.
func (tx Work) HideTask(ctx context.Context, accountID, agentID, id string) error {
	n, err := tx.Exec(ctx, `UPDATE tasks SET deleted_at = $4, next_at = 0, revision = revision + 1
		WHERE account_id = $1 AND agent_id = $2 AND id = $3 AND deleted_at = 0`, accountID, agentID, id, db.Micros(tx.Now))
	if err == nil && n == 0 {
		err = noTask()
	}
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE task_runs SET waiting = '', status = 'cancelled', settle = 0, revision = revision + 1 WHERE task_id = $1 AND waiting <> ''`, id)
	return err
}

// HideTasksOf is [Work.HideTask] for all tasks of an agent.
func (tx Work) HideTasksOf(ctx context.Context, accountID, agentID string) error {
	ids, err := tx.texts(ctx, `SELECT id FROM tasks WHERE account_id = $1 AND agent_id = $2 AND deleted_at = 0 ORDER BY id`, accountID, agentID)
	for _, id := range ids {
		if err == nil {
			err = tx.HideTask(ctx, accountID, agentID, id)
		}
	}
	return err
}

// RemoveHiddenTasks removes rows of deleted tasks, at most limit runs at a time, and
// returns the number of removed rows.
func (tx Work) RemoveHiddenTasks(ctx context.Context, limit int) (removed int, err error) {
	ids, err := tx.texts(ctx, `SELECT id FROM tasks WHERE deleted_at > 0 ORDER BY deleted_at LIMIT 20`)
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		n, err := tx.Exec(ctx, `DELETE FROM task_runs WHERE id IN (SELECT id FROM task_runs WHERE task_id = $1 LIMIT $2)`, id, limit-removed)
		if err != nil {
			return removed, err
		}
		if removed += int(n); removed >= limit {
			break
		}
		if _, err = tx.Exec(ctx, `DELETE FROM own_credentials WHERE owner_id = $1`, id); err != nil {
			return removed, err
		}
		if n, err = tx.Exec(ctx, `DELETE FROM tasks WHERE id = $1 AND deleted_at > 0`, id); err != nil {
			return removed, err
		}
		removed += int(n)
	}
	return removed, nil
}
