-- +goose Up

-- The protocols through which an agent is offered besides its own API, as JSON; empty means none.
ALTER TABLE agents ADD COLUMN expose TEXT NOT NULL DEFAULT '';
CREATE INDEX agents_exposed ON agents (account_id, name, id) WHERE expose <> '' AND deleted_at = 0;

-- The maximum number of output tokens of each model call of a turn; 0 means that of the model.
ALTER TABLE turns ADD COLUMN max_output BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE turns DROP COLUMN max_output;
DROP INDEX agents_exposed;
ALTER TABLE agents DROP COLUMN expose;
