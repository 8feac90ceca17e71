-- What the service needs to find out that it cannot commit, and an index.
--
-- One text for SQLite and PostgreSQL; see 00001 for how values are kept.

-- +goose Up

-- One row, written and emptied again after a commit has failed, before work is
-- accepted again.
CREATE TABLE store_probe (
    id   BIGINT PRIMARY KEY CHECK (id = 1),
    data TEXT   NOT NULL
);

-- For lists of an agent's sessions by status, which otherwise read all of them.
CREATE INDEX sessions_by_status ON sessions (agent_id, status, created_at, id);

-- +goose Down
DROP INDEX sessions_by_status;
DROP TABLE store_probe;
