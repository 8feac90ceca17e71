-- +goose Up

-- Ratings of answers: at most one by the visitor of a session and one by its account. rating is 'up' or 'down', side is 'visitor' or
-- 'account', key_id is empty for a visitor.
CREATE TABLE feedback (
    id         TEXT   PRIMARY KEY,
    account_id TEXT   NOT NULL REFERENCES accounts (id),
    agent_id   TEXT   NOT NULL,
    session_id TEXT   NOT NULL,
    message_id TEXT   NOT NULL,
    turn       BIGINT NOT NULL,
    side       TEXT   NOT NULL,
    rating     TEXT   NOT NULL,
    comment    TEXT   NOT NULL,
    key_id     TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX feedback_of_message ON feedback (session_id, message_id, side);
CREATE INDEX feedback_of_session ON feedback (session_id, turn, side);
CREATE INDEX feedback_newest ON feedback (account_id, created_at, id);
CREATE INDEX feedback_by_agent ON feedback (account_id, agent_id, created_at, id);

-- Whether visitors of an embed can rate answers. Embeds from before this column show no thumbs until they are changed.
ALTER TABLE embeds ADD COLUMN feedback BIGINT NOT NULL DEFAULT 0;
ALTER TABLE embed_tags ADD COLUMN feedback BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE embed_tags DROP COLUMN feedback;
ALTER TABLE embeds DROP COLUMN feedback;
DROP TABLE feedback;
