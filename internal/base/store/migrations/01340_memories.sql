-- +goose Up

-- What agents remember of end users: one row for an end user of an agent while there are notes. notes and bytes are those of its notes;
-- revision changes with each of them.
CREATE TABLE memories (
    id         TEXT   PRIMARY KEY,
    account_id TEXT   NOT NULL REFERENCES accounts (id),
    agent_id   TEXT   NOT NULL,
    user_id    TEXT   NOT NULL,
    revision   BIGINT NOT NULL,
    notes      BIGINT NOT NULL,
    bytes      BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX memories_of_user ON memories (account_id, user_id, agent_id);
CREATE INDEX memories_of_agent ON memories (account_id, agent_id, created_at, id);

CREATE TABLE memory_notes (
    id         TEXT   PRIMARY KEY,
    account_id TEXT   NOT NULL REFERENCES accounts (id),
    agent_id   TEXT   NOT NULL,
    user_id    TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    text       TEXT   NOT NULL,
    bytes      BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX memory_notes_of_user ON memory_notes (account_id, user_id, agent_id, name);
CREATE INDEX memory_notes_of_agent ON memory_notes (account_id, agent_id);

-- +goose Down
DROP TABLE memory_notes;
DROP TABLE memories;
