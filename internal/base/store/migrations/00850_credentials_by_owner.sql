-- +goose Up

-- Whoever goes takes its credentials along.
CREATE INDEX own_credentials_by_owner ON own_credentials (owner_id);

-- +goose Down
DROP INDEX own_credentials_by_owner;
