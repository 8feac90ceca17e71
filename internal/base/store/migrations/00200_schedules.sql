-- Scheduled tasks and what became of each of their instants.
--
-- One text for SQLite and PostgreSQL; see 00001 for how values are kept.

-- +goose Up

-- next_at is the instant that comes next, 0 for none; cursor is the last one
-- that is dealt with, and never goes back: with the unique index of the runs it
-- is what makes an instant happen once. After a failure the task is left alone
-- until retry_at. A deleted task stays, out of every
-- list, until the sweep has removed its runs.
CREATE TABLE tasks (
    id               TEXT   PRIMARY KEY,
    account_id       TEXT   NOT NULL REFERENCES accounts (id),
    agent_id         TEXT   NOT NULL,
    key_id           TEXT   NOT NULL,
    name             TEXT   NOT NULL,
    message          TEXT   NOT NULL,
    mode             TEXT   NOT NULL,
    schedule_type    TEXT   NOT NULL CHECK (schedule_type IN ('cron', 'interval', 'once')),
    expression       TEXT   NOT NULL,
    timezone         TEXT   NOT NULL,
    every            BIGINT NOT NULL,
    run_at           BIGINT NOT NULL,
    start_at         BIGINT NOT NULL,
    end_at           BIGINT NOT NULL,
    max_runs         BIGINT NOT NULL,
    enabled          BIGINT NOT NULL CHECK (enabled IN (0, 1)),
    pause_reason     TEXT   NOT NULL,
    session_policy   TEXT   NOT NULL CHECK (session_policy IN ('new', 'reuse')),
    missed_policy    TEXT   NOT NULL CHECK (missed_policy IN ('run_latest', 'skip', 'run_all')),
    catch_up_window  BIGINT NOT NULL,
    overlap_policy   TEXT   NOT NULL CHECK (overlap_policy IN ('skip', 'queue', 'allow')),
    pause_after      BIGINT NOT NULL,
    max_credits      BIGINT NOT NULL,
    session_id       TEXT   NOT NULL,
    anchor           BIGINT NOT NULL,
    cursor           BIGINT NOT NULL,
    next_at          BIGINT NOT NULL,
    failures         BIGINT NOT NULL,
    count_started    BIGINT NOT NULL,
    count_scheduled  BIGINT NOT NULL,
    count_completed  BIGINT NOT NULL,
    count_failed     BIGINT NOT NULL,
    count_cancelled  BIGINT NOT NULL,
    count_skipped    BIGINT NOT NULL,
    last_run_id      TEXT   NOT NULL,
    retry_at         BIGINT NOT NULL,
    revision         BIGINT NOT NULL,
    created_at       BIGINT NOT NULL,
    updated_at       BIGINT NOT NULL,
    deleted_at       BIGINT NOT NULL
);
CREATE INDEX tasks_by_agent ON tasks (agent_id, created_at, id);
CREATE INDEX tasks_due ON tasks (next_at) WHERE next_at > 0;
CREATE INDEX tasks_deleted ON tasks (deleted_at) WHERE deleted_at > 0;

-- A row is one instant, run or skipped; one with instants > 1 stands for all the
-- skipped ones up to through. turn is the one of the session that the run is.
-- settle marks what its task has yet to take note of: a run that has ended, or
-- one whose session has become free for it.
CREATE TABLE task_runs (
    id            TEXT   PRIMARY KEY,
    task_id       TEXT   NOT NULL,
    account_id    TEXT   NOT NULL,
    scheduled_for BIGINT NOT NULL,
    trigger_kind  TEXT   NOT NULL CHECK (trigger_kind IN ('schedule', 'catch_up', 'manual')),
    status        TEXT   NOT NULL CHECK (status IN ('queued', 'running', 'waiting_for_input', 'completed', 'failed', 'cancelled', 'skipped')),
    skip_reason   TEXT   NOT NULL,
    waiting       TEXT   NOT NULL CHECK (waiting IN ('', 'overlap', 'room')),
    instants      BIGINT NOT NULL,
    through       BIGINT NOT NULL,
    session_id    TEXT   NOT NULL,
    turn          BIGINT NOT NULL,
    delay         BIGINT NOT NULL,
    revision      BIGINT NOT NULL,
    settle        BIGINT NOT NULL CHECK (settle IN (0, 1)),
    created_at    BIGINT NOT NULL,
    started_at    BIGINT NOT NULL,
    finished_at   BIGINT NOT NULL
);
CREATE UNIQUE INDEX task_runs_once ON task_runs (task_id, scheduled_for) WHERE trigger_kind <> 'manual';
CREATE INDEX task_runs_by_task ON task_runs (task_id, scheduled_for, id);
CREATE INDEX task_runs_by_session ON task_runs (session_id, turn) WHERE session_id <> '';
CREATE INDEX task_runs_active ON task_runs (task_id, scheduled_for) WHERE status IN ('queued', 'running', 'waiting_for_input');
CREATE INDEX task_runs_waiting_for_room ON task_runs (account_id, scheduled_for) WHERE waiting = 'room';
CREATE INDEX task_runs_to_settle ON task_runs (task_id) WHERE settle = 1;

-- +goose Down
DROP TABLE task_runs;
DROP TABLE tasks;
