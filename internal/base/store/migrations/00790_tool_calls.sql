-- +goose Up

-- The tools of an agent that are carried out outside of the service, as JSON; empty:
-- none.
ALTER TABLE agents ADD COLUMN tools TEXT NOT NULL DEFAULT '';
ALTER TABLE agent_versions ADD COLUMN tools TEXT NOT NULL DEFAULT '';

-- Which of them a session does not offer, as JSON, and how many calls it has made.
ALTER TABLE sessions ADD COLUMN withheld TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN tool_calls BIGINT NOT NULL DEFAULT 0;

-- A call of such a tool. The row is written with the step that made it, before
-- anything leaves the service. call_id is the model's, and not always unique. connection_id, child_session_id, decision, decided_by,
-- decided_at and comment are empty for client tools.
CREATE TABLE tool_calls (
    id                TEXT   PRIMARY KEY,
    call_id           TEXT   NOT NULL,
    account_id        TEXT   NOT NULL,
    agent_id          TEXT   NOT NULL,
    session_id        TEXT   NOT NULL,
    turn              BIGINT NOT NULL,
    step              BIGINT NOT NULL,
    place             BIGINT NOT NULL,
    type              TEXT   NOT NULL,
    tool              TEXT   NOT NULL,
    connection_id     TEXT   NOT NULL DEFAULT '',
    definition_sha256 TEXT   NOT NULL,
    arguments         TEXT   NOT NULL,
    arguments_sha256  TEXT   NOT NULL,
    effects           TEXT   NOT NULL,
    status            TEXT   NOT NULL CHECK (status IN ('planned', 'waiting', 'started', 'done')),
    outcome           TEXT   NOT NULL DEFAULT '',
    input_id          TEXT   NOT NULL DEFAULT '',
    on_timeout        TEXT   NOT NULL,
    timeout           BIGINT NOT NULL,
    attempts          BIGINT NOT NULL DEFAULT 0,
    child_session_id  TEXT   NOT NULL DEFAULT '',
    result            TEXT   NOT NULL DEFAULT '',
    result_bytes      BIGINT NOT NULL DEFAULT 0,
    error_code        TEXT   NOT NULL DEFAULT '',
    late_output       TEXT,
    decision          TEXT   NOT NULL DEFAULT '',
    decided_by        TEXT   NOT NULL DEFAULT '',
    decided_at        BIGINT NOT NULL DEFAULT 0,
    comment           TEXT   NOT NULL DEFAULT '',
    resolution        TEXT   NOT NULL DEFAULT '',
    note              TEXT   NOT NULL DEFAULT '',
    resolved_by       TEXT   NOT NULL DEFAULT '',
    resolved_at       BIGINT NOT NULL DEFAULT 0,
    created_at        BIGINT NOT NULL,
    expires_at        BIGINT NOT NULL DEFAULT 0,
    started_at        BIGINT NOT NULL DEFAULT 0,
    finished_at       BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX tool_calls_by_step ON tool_calls (session_id, turn, step, place);
CREATE INDEX tool_calls_by_session ON tool_calls (session_id, created_at, id);
CREATE INDEX tool_calls_by_account ON tool_calls (account_id, created_at, id);
CREATE INDEX tool_calls_by_status ON tool_calls (account_id, status, created_at, id);
CREATE INDEX tool_calls_by_outcome ON tool_calls (account_id, outcome, created_at, id) WHERE outcome <> '';

-- An input of the kind tool_call is found by its account; those of other kinds have
-- none. claim_id and claimed_until are of the executor that works on it.
ALTER TABLE inputs ADD COLUMN account_id TEXT NOT NULL DEFAULT '';
ALTER TABLE inputs ADD COLUMN agent_id TEXT NOT NULL DEFAULT '';
ALTER TABLE inputs ADD COLUMN claim_id TEXT NOT NULL DEFAULT '';
ALTER TABLE inputs ADD COLUMN claimed_until BIGINT NOT NULL DEFAULT 0;
CREATE INDEX inputs_open ON inputs (account_id, created_at, id) WHERE status = 'pending' AND kind = 'tool_call';

-- +goose Down
DROP INDEX inputs_open;
ALTER TABLE inputs DROP COLUMN claimed_until;
ALTER TABLE inputs DROP COLUMN claim_id;
ALTER TABLE inputs DROP COLUMN agent_id;
ALTER TABLE inputs DROP COLUMN account_id;
DROP TABLE tool_calls;
ALTER TABLE sessions DROP COLUMN tool_calls;
ALTER TABLE sessions DROP COLUMN withheld;
ALTER TABLE agent_versions DROP COLUMN tools;
ALTER TABLE agents DROP COLUMN tools;
