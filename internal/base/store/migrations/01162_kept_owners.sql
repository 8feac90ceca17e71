-- +goose Up

-- Since when the groups of a last owner no longer give that role, which stays so that the account has an owner; 0: they do.
ALTER TABLE members ADD COLUMN kept_since BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE members DROP COLUMN kept_since;
