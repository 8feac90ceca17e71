-- +goose Up

-- How many processes ended while they carried out a call of a connection's tool.
ALTER TABLE tool_calls ADD COLUMN lost BIGINT NOT NULL DEFAULT 0;

-- The newest turn whose event about withheld tools is in the log.
ALTER TABLE sessions ADD COLUMN withheld_turn BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE sessions DROP COLUMN withheld_turn;
ALTER TABLE tool_calls DROP COLUMN lost;
