-- +goose Up

-- What an agent may do with its drive in chats that embeds show.
ALTER TABLE agents ADD COLUMN visitor_drive TEXT NOT NULL DEFAULT 'read';
ALTER TABLE agent_versions ADD COLUMN visitor_drive TEXT NOT NULL DEFAULT 'read';

-- +goose Down
ALTER TABLE agent_versions DROP COLUMN visitor_drive;
ALTER TABLE agents DROP COLUMN visitor_drive;
