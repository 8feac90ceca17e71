-- +goose Up

-- Files for messages, each in a drive of its own whose owner is the upload. chat_id is the chat
-- of a visitor who sent it, empty for one of the account. session_id is the session with the
-- message that has it; until then it ends at expires_at.
CREATE TABLE uploads (
    id          TEXT PRIMARY KEY,
    account_id  TEXT NOT NULL,
    agent_id    TEXT NOT NULL,
    chat_id     TEXT NOT NULL,
    session_id  TEXT NOT NULL DEFAULT '',
    name        TEXT NOT NULL,
    mime        TEXT NOT NULL,
    size        BIGINT NOT NULL,
    sha256      TEXT NOT NULL,
    created_at  BIGINT NOT NULL,
    expires_at  BIGINT NOT NULL
);
CREATE INDEX uploads_open ON uploads (account_id, expires_at) WHERE session_id = '';
CREATE INDEX uploads_expired ON uploads (expires_at) WHERE session_id = '';
CREATE INDEX uploads_of_session ON uploads (session_id);
CREATE INDEX uploads_of_chat ON uploads (chat_id);
CREATE INDEX uploads_of_visitors ON uploads (account_id, size) WHERE chat_id <> '';

-- The files of a message, and what a model is sent of them, as JSON; empty without. The second
-- is written before the first call that contains the message, and does not change.
ALTER TABLE messages ADD COLUMN attachments TEXT NOT NULL DEFAULT '';
ALTER TABLE messages ADD COLUMN attached TEXT NOT NULL DEFAULT '';
CREATE INDEX messages_attachments ON messages (session_id, place) WHERE attachments <> '';

-- The files that visitors may attach, as JSON; empty if none.
ALTER TABLE embeds ADD COLUMN attachments TEXT NOT NULL DEFAULT '';
ALTER TABLE embed_tags ADD COLUMN attachments TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE embed_tags DROP COLUMN attachments;
ALTER TABLE embeds DROP COLUMN attachments;
DROP INDEX messages_attachments;
ALTER TABLE messages DROP COLUMN attached;
ALTER TABLE messages DROP COLUMN attachments;
DROP TABLE uploads;
