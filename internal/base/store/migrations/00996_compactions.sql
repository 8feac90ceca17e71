-- +goose Up

-- The calls that summarized a session. The newest text replaces everything before a turn and
-- the first steps of that turn in the prompts of its agent; an empty text was not used.
CREATE TABLE compactions (
	session_id TEXT NOT NULL,
	turn BIGINT NOT NULL,
	from_turn BIGINT NOT NULL,
	from_steps BIGINT NOT NULL,
	text TEXT NOT NULL,
	calls TEXT NOT NULL,
	tokens_before BIGINT NOT NULL,
	tokens_after BIGINT NOT NULL,
	created_at BIGINT NOT NULL,
	PRIMARY KEY (session_id, turn)
);
-- The number of steps of the turn context_from that its agent is not sent either, and the
-- newest turn that has a row in compactions; 0 means none.
ALTER TABLE sessions ADD COLUMN context_steps BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN compacted BIGINT NOT NULL DEFAULT 0;

-- The part of a model's window, in percent, above which an agent's sessions are summarized:
-- 0 means the operator's, -1 never.
ALTER TABLE agents ADD COLUMN compact_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE agent_versions ADD COLUMN compact_at BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE agent_versions DROP COLUMN compact_at;
ALTER TABLE agents DROP COLUMN compact_at;
ALTER TABLE sessions DROP COLUMN compacted;
ALTER TABLE sessions DROP COLUMN context_steps;
DROP TABLE compactions;
