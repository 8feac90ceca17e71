-- +goose Up

-- What it takes to move a task's cursor back after a clock that was ahead, and to
-- run no instant twice. planned_at is when the task was created or resumed, or its
-- instants were changed; trimmed_at is up to where rows of its runs may have been
-- removed. The cursor never goes back beyond either. recorded_through is up to where
-- instants after the cursor may have a row. An index finds the cursors that are
-- ahead of the clock.
ALTER TABLE tasks ADD COLUMN planned_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN trimmed_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN recorded_through BIGINT NOT NULL DEFAULT 0;
-- When a task was planned was not recorded before: at its cursor at the latest. No
-- task with fewer runs than are kept has lost any.
UPDATE tasks SET planned_at = cursor, trimmed_at = CASE WHEN count_started + count_skipped < 9000 THEN 0 ELSE cursor END;
CREATE INDEX tasks_ahead ON tasks (cursor) WHERE enabled = 1 AND deleted_at = 0;

-- +goose Down
DROP INDEX tasks_ahead;
ALTER TABLE tasks DROP COLUMN recorded_through;
ALTER TABLE tasks DROP COLUMN trimmed_at;
ALTER TABLE tasks DROP COLUMN planned_at;
