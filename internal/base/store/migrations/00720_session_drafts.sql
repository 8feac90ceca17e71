-- +goose Up

-- The configuration of a session that tries one which is not saved, as JSON; empty:
-- it runs on the version of its agent.
ALTER TABLE sessions ADD COLUMN draft TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE sessions DROP COLUMN draft;
