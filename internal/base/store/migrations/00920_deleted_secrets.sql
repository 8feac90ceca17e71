-- +goose Up

-- The secret that the newest request of a call carried; empty: none.
ALTER TABLE tool_calls ADD COLUMN secret_id TEXT NOT NULL DEFAULT '';
CREATE INDEX tool_calls_by_secret ON tool_calls (account_id, secret_id) WHERE secret_id <> '';

-- When a secret was deleted that calls name: it has no value any more. 0: it was not.
ALTER TABLE secrets ADD COLUMN deleted_at BIGINT NOT NULL DEFAULT 0;
CREATE INDEX secrets_deleted ON secrets (deleted_at, id) WHERE deleted_at > 0;

-- +goose Down
DROP INDEX secrets_deleted;
ALTER TABLE secrets DROP COLUMN deleted_at;
DROP INDEX tool_calls_by_secret;
ALTER TABLE tool_calls DROP COLUMN secret_id;
