-- Permissions to show an agent in a page, and their tokens.
--
-- One text for SQLite and PostgreSQL; see 00001 for how values are kept. Of a
-- ticket or a token only the hash is stored.

-- +goose Up

-- What all turns of a session together may spend; 0: no cap beside the balance.
ALTER TABLE sessions ADD COLUMN max_spend BIGINT NOT NULL DEFAULT 0;

-- An embed is an embed URL (emu_) or an embed session (ems_). chat_id is the
-- session that it is for, which begins with its first message. recent has the
-- times of what was sent in the last minute. Its times are 0 where they have
-- not come.
CREATE TABLE embeds (
    id                  TEXT   PRIMARY KEY,
    account_id          TEXT   NOT NULL REFERENCES accounts (id),
    agent_id            TEXT   NOT NULL,
    key_id              TEXT   NOT NULL,
    kind                TEXT   NOT NULL CHECK (kind IN ('url', 'session')),
    chat_id             TEXT   NOT NULL,
    origins             TEXT   NOT NULL,
    external_user_id    TEXT   NOT NULL,
    greeting            TEXT   NOT NULL,
    theme               TEXT   NOT NULL,
    messages_per_minute BIGINT NOT NULL,
    max_messages        BIGINT NOT NULL,
    max_message_chars   BIGINT NOT NULL,
    max_credits         BIGINT NOT NULL,
    spent_before        BIGINT NOT NULL,
    ticket              TEXT   NOT NULL,
    token_life          BIGINT NOT NULL,
    chat_life           BIGINT NOT NULL,
    expires_at          BIGINT NOT NULL,
    chat_expires_at     BIGINT NOT NULL,
    exchanged_at        BIGINT NOT NULL,
    revoked_at          BIGINT NOT NULL,
    used_at             BIGINT NOT NULL,
    messages            BIGINT NOT NULL,
    recent              TEXT   NOT NULL,
    refused             BIGINT NOT NULL,
    created_at          BIGINT NOT NULL
);
CREATE INDEX embeds_by_agent ON embeds (agent_id, kind, created_at, id);
CREATE INDEX embeds_by_chat ON embeds (chat_id, created_at, id);
CREATE INDEX embeds_by_age ON embeds (created_at);

-- A chat whose first message has come has begun: it is a session from then on,
-- and gone when that is deleted.
CREATE TABLE embed_chats (
    id         TEXT   PRIMARY KEY,
    account_id TEXT   NOT NULL,
    agent_id   TEXT   NOT NULL,
    user_id    TEXT   NOT NULL,
    begun      BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX embed_chats_by_age ON embed_chats (created_at);

CREATE TABLE embed_tokens (
    hash       TEXT   PRIMARY KEY,
    embed_id   TEXT   NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX embed_tokens_by_embed ON embed_tokens (embed_id);

-- The origins of an embed session, for requests that carry no token.
CREATE TABLE embed_origins (
    embed_id TEXT NOT NULL,
    origin   TEXT NOT NULL,
    PRIMARY KEY (embed_id, origin)
);
CREATE INDEX embed_origins_by_origin ON embed_origins (origin);

-- Origins that were refused, a bounded number for each embed.
CREATE TABLE embed_refusals (
    embed_id TEXT   NOT NULL,
    origin   TEXT   NOT NULL,
    times    BIGINT NOT NULL,
    last_at  BIGINT NOT NULL,
    PRIMARY KEY (embed_id, origin)
);

-- +goose Down
DROP TABLE embed_refusals;
DROP TABLE embed_origins;
DROP TABLE embed_tokens;
DROP TABLE embed_chats;
DROP TABLE embeds;
ALTER TABLE sessions DROP COLUMN max_spend;
