-- +goose Up

-- The first turn of a session that its agent is still told; 0 means all.
ALTER TABLE sessions ADD COLUMN context_from BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE sessions DROP COLUMN context_from;
