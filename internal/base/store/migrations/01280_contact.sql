-- +goose Up

-- Whether visitors of an embed can ask for a person, and when the visitor of a session did so last; 0 is never.
ALTER TABLE embeds ADD COLUMN contact BIGINT NOT NULL DEFAULT 0;
ALTER TABLE embed_tags ADD COLUMN contact BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN person_requested_at BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE sessions DROP COLUMN person_requested_at;
ALTER TABLE embed_tags DROP COLUMN contact;
ALTER TABLE embeds DROP COLUMN contact;
