-- +goose Up
-- A run that waits for a place in the queue of sessions waits for 'capacity';
-- the rows said 'room' before. A constraint cannot be changed in SQLite, so the
-- table is copied.
CREATE TABLE task_runs_next (
    id            TEXT   PRIMARY KEY,
    task_id       TEXT   NOT NULL,
    account_id    TEXT   NOT NULL,
    scheduled_for BIGINT NOT NULL,
    trigger_kind  TEXT   NOT NULL CHECK (trigger_kind IN ('schedule', 'catch_up', 'manual')),
    status        TEXT   NOT NULL CHECK (status IN ('queued', 'running', 'waiting_for_input', 'completed', 'failed', 'cancelled', 'skipped')),
    skip_reason   TEXT   NOT NULL,
    waiting       TEXT   NOT NULL CHECK (waiting IN ('', 'overlap', 'capacity')),
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
INSERT INTO task_runs_next
    SELECT id, task_id, account_id, scheduled_for, trigger_kind, status, skip_reason,
        CASE waiting WHEN 'room' THEN 'capacity' ELSE waiting END,
        instants, through, session_id, turn, delay, revision, settle, created_at, started_at, finished_at
    FROM task_runs;
DROP TABLE task_runs;
ALTER TABLE task_runs_next RENAME TO task_runs;
CREATE UNIQUE INDEX task_runs_once ON task_runs (task_id, scheduled_for) WHERE trigger_kind <> 'manual';
CREATE INDEX task_runs_by_task ON task_runs (task_id, scheduled_for, id);
CREATE INDEX task_runs_by_session ON task_runs (session_id, turn) WHERE session_id <> '';
CREATE INDEX task_runs_active ON task_runs (task_id, scheduled_for) WHERE status IN ('queued', 'running', 'waiting_for_input');
CREATE INDEX task_runs_waiting_for_capacity ON task_runs (account_id, scheduled_for) WHERE waiting = 'capacity';
CREATE INDEX task_runs_to_settle ON task_runs (task_id) WHERE settle = 1;

-- +goose Down
ALTER TABLE task_runs RENAME TO task_runs_before;
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
INSERT INTO task_runs
    SELECT id, task_id, account_id, scheduled_for, trigger_kind, status, skip_reason,
        CASE waiting WHEN 'capacity' THEN 'room' ELSE waiting END,
        instants, through, session_id, turn, delay, revision, settle, created_at, started_at, finished_at
    FROM task_runs_before;
DROP TABLE task_runs_before;
CREATE UNIQUE INDEX task_runs_once ON task_runs (task_id, scheduled_for) WHERE trigger_kind <> 'manual';
CREATE INDEX task_runs_by_task ON task_runs (task_id, scheduled_for, id);
CREATE INDEX task_runs_by_session ON task_runs (session_id, turn) WHERE session_id <> '';
CREATE INDEX task_runs_active ON task_runs (task_id, scheduled_for) WHERE status IN ('queued', 'running', 'waiting_for_input');
CREATE INDEX task_runs_waiting_for_room ON task_runs (account_id, scheduled_for) WHERE waiting = 'room';
CREATE INDEX task_runs_to_settle ON task_runs (task_id) WHERE settle = 1;
