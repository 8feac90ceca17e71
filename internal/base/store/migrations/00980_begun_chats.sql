-- +goose Up

-- When the chat of a script tag had its first message; 0 before. network is a hash of the
-- visitor's network at that time; empty if it is unknown.
ALTER TABLE embeds ADD COLUMN begun_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE embeds ADD COLUMN network TEXT NOT NULL DEFAULT '';
UPDATE embeds SET begun_at = created_at WHERE tag_id <> '' AND messages > 0;
CREATE INDEX embeds_begun ON embeds (tag_id, begun_at) WHERE begun_at > 0;
CREATE INDEX embeds_silent ON embeds (tag_id, created_at) WHERE tag_id <> '' AND begun_at = 0;
DROP INDEX embeds_by_tag;

-- The line in which a session waits: the script tag, or "visitors" with the agent, of the
-- visitors who sent its newest message; empty for its owner's.
ALTER TABLE sessions ADD COLUMN line TEXT NOT NULL DEFAULT '';
UPDATE sessions SET line = COALESCE((SELECT NULLIF(e.tag_id, '') FROM embeds e WHERE e.id = sessions.trigger_id), 'visitors ' || agent_id)
	WHERE trigger_type = 'embed';

-- +goose Down
ALTER TABLE sessions DROP COLUMN line;
CREATE INDEX embeds_by_tag ON embeds (tag_id, created_at) WHERE tag_id <> '';
DROP INDEX embeds_silent;
DROP INDEX embeds_begun;
ALTER TABLE embeds DROP COLUMN network;
ALTER TABLE embeds DROP COLUMN begun_at;
