-- +goose Up

-- What a page shows of an embed: a title, the id of a logo, and questions to offer (JSON); each
-- empty without.
ALTER TABLE embeds ADD COLUMN title TEXT NOT NULL DEFAULT '';
ALTER TABLE embeds ADD COLUMN logo TEXT NOT NULL DEFAULT '';
ALTER TABLE embeds ADD COLUMN starters TEXT NOT NULL DEFAULT '';
ALTER TABLE embed_tags ADD COLUMN title TEXT NOT NULL DEFAULT '';
ALTER TABLE embed_tags ADD COLUMN logo TEXT NOT NULL DEFAULT '';
ALTER TABLE embed_tags ADD COLUMN starters TEXT NOT NULL DEFAULT '';

-- Pictures for embeds. An id (lgo_) is public. content is base64, and does not change.
CREATE TABLE embed_logos (
    id         TEXT   PRIMARY KEY,
    account_id TEXT   NOT NULL REFERENCES accounts (id),
    mime_type  TEXT   NOT NULL,
    bytes      BIGINT NOT NULL,
    width      BIGINT NOT NULL,
    height     BIGINT NOT NULL,
    content    TEXT   NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX embed_logos_by_account ON embed_logos (account_id, created_at, id);

-- +goose Down
DROP TABLE embed_logos;
ALTER TABLE embed_tags DROP COLUMN starters;
ALTER TABLE embed_tags DROP COLUMN logo;
ALTER TABLE embed_tags DROP COLUMN title;
ALTER TABLE embeds DROP COLUMN starters;
ALTER TABLE embeds DROP COLUMN logo;
ALTER TABLE embeds DROP COLUMN title;
