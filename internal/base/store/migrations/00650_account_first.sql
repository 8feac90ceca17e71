-- +goose Up

-- A list is of an account and of something in it. PostgreSQL takes the two for
-- independent of each other and expects next to no rows: it reads all of them and
-- sorts, unless one index has both and the order.
DROP INDEX sessions_by_agent;
CREATE INDEX sessions_by_agent ON sessions (account_id, agent_id, created_at, id);
DROP INDEX sessions_by_status;
CREATE INDEX sessions_by_status ON sessions (account_id, agent_id, status, created_at, id);
DROP INDEX sessions_by_user;
CREATE INDEX sessions_by_user ON sessions (account_id, agent_id, external_user_id, created_at, id) WHERE external_user_id <> '';
DROP INDEX agents_by_space;
CREATE INDEX agents_by_space ON agents (account_id, space_id, created_at, id);
DROP INDEX embeds_by_agent;
CREATE INDEX embeds_by_agent ON embeds (account_id, agent_id, kind, created_at, id);
DROP INDEX charges_by_session;
CREATE INDEX charges_by_session ON charges (account_id, session_id, created_at, id) WHERE session_id <> '';

-- +goose Down
DROP INDEX charges_by_session;
CREATE INDEX charges_by_session ON charges (session_id, created_at, id) WHERE session_id <> '';
DROP INDEX embeds_by_agent;
CREATE INDEX embeds_by_agent ON embeds (agent_id, kind, created_at, id);
DROP INDEX agents_by_space;
CREATE INDEX agents_by_space ON agents (space_id, created_at, id);
DROP INDEX sessions_by_user;
CREATE INDEX sessions_by_user ON sessions (agent_id, external_user_id, created_at, id) WHERE external_user_id <> '';
DROP INDEX sessions_by_status;
CREATE INDEX sessions_by_status ON sessions (agent_id, status, created_at, id);
DROP INDEX sessions_by_agent;
CREATE INDEX sessions_by_agent ON sessions (agent_id, created_at, id);
