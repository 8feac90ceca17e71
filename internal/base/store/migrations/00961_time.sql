-- +goose Up

-- The time zone in which an agent is told the time, and what its model is told with a message.
ALTER TABLE agents ADD COLUMN timezone TEXT NOT NULL DEFAULT 'UTC';
ALTER TABLE agent_versions ADD COLUMN timezone TEXT NOT NULL DEFAULT 'UTC';
ALTER TABLE sessions ADD COLUMN timezone TEXT NOT NULL DEFAULT 'UTC';
ALTER TABLE messages ADD COLUMN note TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE messages DROP COLUMN note;
ALTER TABLE sessions DROP COLUMN timezone;
ALTER TABLE agent_versions DROP COLUMN timezone;
ALTER TABLE agents DROP COLUMN timezone;
