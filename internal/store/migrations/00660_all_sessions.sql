-- +goose Up

-- The sessions of all agents, and those in one status.
CREATE INDEX sessions_by_account ON sessions (account_id, created_at, id);
CREATE INDEX sessions_by_account_status ON sessions (account_id, status, created_at, id);

-- +goose Down
DROP INDEX sessions_by_account_status;
DROP INDEX sessions_by_account;
