-- +goose Up

-- The key that created a key, so that both can be revoked together. Empty: no key
-- did, or it was created before this was recorded.
ALTER TABLE keys ADD COLUMN made_by TEXT NOT NULL DEFAULT '';
-- Whether what a revoked key created goes on.
ALTER TABLE keys ADD COLUMN keeps_made BIGINT NOT NULL DEFAULT 0;
CREATE INDEX keys_by_maker ON keys (made_by) WHERE made_by <> '';
CREATE INDEX embeds_by_key ON embeds (key_id) WHERE revoked_at = 0;
CREATE INDEX tasks_by_key ON tasks (key_id) WHERE enabled = 1;

-- +goose Down
DROP INDEX tasks_by_key;
DROP INDEX embeds_by_key;
DROP INDEX keys_by_maker;
ALTER TABLE keys DROP COLUMN keeps_made;
ALTER TABLE keys DROP COLUMN made_by;
