-- Script tags: launchers for pages that have no server.

-- +goose Up

-- A tag (pub_) is public. key_id is the key that it ends with. disabled is why it is
-- not shown; empty: it is.
CREATE TABLE embed_tags (
    id            TEXT   PRIMARY KEY,
    account_id    TEXT   NOT NULL REFERENCES accounts (id),
    agent_id      TEXT   NOT NULL,
    key_id        TEXT   NOT NULL,
    origins       TEXT   NOT NULL,
    greeting      TEXT   NOT NULL,
    theme         TEXT   NOT NULL,
    accent        TEXT   NOT NULL,
    position      TEXT   NOT NULL,
    language      TEXT   NOT NULL,
    max_credits   BIGINT NOT NULL,
    chats_per_day BIGINT NOT NULL,
    disabled      TEXT   NOT NULL,
    refused       BIGINT NOT NULL,
    revision      BIGINT NOT NULL,
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL
);
CREATE INDEX embed_tags_by_agent ON embed_tags (account_id, agent_id, created_at, id);
CREATE INDEX embed_tags_by_key ON embed_tags (key_id) WHERE disabled = '';

-- The tag that made an embed for a visitor, and the hash of what opens the visitor's
-- chat again; both empty where no tag did.
ALTER TABLE embeds ADD COLUMN tag_id TEXT NOT NULL DEFAULT '';
ALTER TABLE embeds ADD COLUMN visitor TEXT NOT NULL DEFAULT '';
CREATE INDEX embeds_by_tag ON embeds (tag_id, created_at) WHERE tag_id <> '';
CREATE UNIQUE INDEX embeds_by_visitor ON embeds (visitor) WHERE visitor <> '';

-- The tickets of such an embed: one for each time that its chat is opened. used_at is
-- 0 before the exchange.
CREATE TABLE embed_tickets (
    hash       TEXT   PRIMARY KEY,
    embed_id   TEXT   NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL
);
CREATE INDEX embed_tickets_by_embed ON embed_tickets (embed_id);

-- +goose Down
DROP TABLE embed_tickets;
DROP INDEX embeds_by_visitor;
DROP INDEX embeds_by_tag;
ALTER TABLE embeds DROP COLUMN visitor;
ALTER TABLE embeds DROP COLUMN tag_id;
DROP TABLE embed_tags;
