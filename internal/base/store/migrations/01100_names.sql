-- +goose Up

-- Lists in the order of names.
CREATE INDEX accounts_by_name ON accounts (name, id);
CREATE INDEX agents_by_name ON agents (account_id, name, id) WHERE deleted_at = 0;

-- +goose Down
DROP INDEX agents_by_name;
DROP INDEX accounts_by_name;
