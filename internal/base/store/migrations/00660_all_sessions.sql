-- +goose Up

-- The sessions of all agents, and those in one status. The condition holds for every
-- row; only queries that state it use these indexes, so that PostgreSQL does not take
-- them for the lists of one agent.
CREATE INDEX sessions_by_account ON sessions (account_id, created_at, id) WHERE length(agent_id) > 0;
CREATE INDEX sessions_by_account_status ON sessions (account_id, status, created_at, id) WHERE length(agent_id) > 0;

-- +goose Down
DROP INDEX sessions_by_account_status;
DROP INDEX sessions_by_account;
