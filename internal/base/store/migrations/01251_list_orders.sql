-- +goose Up

-- Sessions by credits and by change, and for operators the sessions and changes of all accounts by time.
CREATE INDEX sessions_by_spent ON sessions (account_id, spent, id) WHERE length(agent_id) > 0;
CREATE INDEX sessions_by_change ON sessions (account_id, updated_at, id) WHERE length(agent_id) > 0;
CREATE INDEX sessions_by_time ON sessions (created_at, id) WHERE length(agent_id) > 0;
CREATE INDEX audit_by_time ON audit (at, account_id, seq);

-- +goose Down
DROP INDEX sessions_by_spent;
DROP INDEX sessions_by_change;
DROP INDEX sessions_by_time;
DROP INDEX audit_by_time;
