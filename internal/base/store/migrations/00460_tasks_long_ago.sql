-- +goose Up
-- Earlier versions took an interval that began before 1970; its next instant then
-- never fell due. At 1 it is due at once, and the scheduler finds the right one.
UPDATE tasks SET next_at = 1 WHERE next_at < 0;

-- +goose Down
SELECT 1;
