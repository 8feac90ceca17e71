-- +goose Up

-- on_unknown: what a call does of which nobody knows whether it was carried out:
-- tell_model or fail; '' where nobody has decided about the tool.
-- idempotency_argument is the argument that carries the id of a call; '': none.
ALTER TABLE connection_tools ADD COLUMN on_unknown TEXT NOT NULL DEFAULT '';
ALTER TABLE connection_tools ADD COLUMN idempotency_argument TEXT NOT NULL DEFAULT '';
UPDATE connection_tools SET on_unknown = 'tell_model' WHERE approved_sha256 <> '';

-- Both as they were when a call was planned.
ALTER TABLE tool_calls ADD COLUMN on_unknown TEXT NOT NULL DEFAULT '';
ALTER TABLE tool_calls ADD COLUMN idempotency_argument TEXT NOT NULL DEFAULT '';

-- 0: the connection is switched off, and its server is not asked.
ALTER TABLE connections ADD COLUMN enabled BIGINT NOT NULL DEFAULT 1;
DROP INDEX connections_by_refresh;
CREATE INDEX connections_by_refresh ON connections (refresh_at, id) WHERE checked_at <> 0 AND kind <> 'http' AND enabled = 1;

-- +goose Down
DROP INDEX connections_by_refresh;
CREATE INDEX connections_by_refresh ON connections (refresh_at, id) WHERE checked_at <> 0 AND kind <> 'http';
ALTER TABLE connections DROP COLUMN enabled;
ALTER TABLE tool_calls DROP COLUMN idempotency_argument;
ALTER TABLE tool_calls DROP COLUMN on_unknown;
ALTER TABLE connection_tools DROP COLUMN idempotency_argument;
ALTER TABLE connection_tools DROP COLUMN on_unknown;
