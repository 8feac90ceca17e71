-- Spaces, agents and their sessions.
--
-- One text for SQLite and PostgreSQL; see 00001 for how values are kept. Things
-- of a session carry its id alone: whoever reads them has read the session, with
-- its account, in the same transaction.

-- +goose Up

CREATE TABLE spaces (
    id          TEXT   PRIMARY KEY,
    account_id  TEXT   NOT NULL REFERENCES accounts (id),
    external_id TEXT,
    name        TEXT   NOT NULL,
    description TEXT   NOT NULL,
    metadata    TEXT   NOT NULL,
    revision    BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL
);
CREATE UNIQUE INDEX spaces_by_external_id ON spaces (account_id, external_id);
CREATE INDEX spaces_by_account ON spaces (account_id, created_at, id);

-- A deleted agent stays, without its external id and out of every list, until
-- the sweep has removed what it had.
CREATE TABLE agents (
    id            TEXT   PRIMARY KEY,
    account_id    TEXT   NOT NULL REFERENCES accounts (id),
    space_id      TEXT   NOT NULL,
    external_id   TEXT,
    name          TEXT   NOT NULL,
    description   TEXT   NOT NULL,
    instructions  TEXT   NOT NULL,
    model         TEXT   NOT NULL,
    drive_access  TEXT   NOT NULL,
    max_credits   BIGINT NOT NULL,
    timeout       BIGINT NOT NULL,
    max_steps     BIGINT NOT NULL,
    embed_enabled BIGINT NOT NULL CHECK (embed_enabled IN (0, 1)),
    metadata      TEXT   NOT NULL,
    version       BIGINT NOT NULL,
    revision      BIGINT NOT NULL,
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    deleted_at    BIGINT NOT NULL
);
CREATE UNIQUE INDEX agents_by_external_id ON agents (account_id, external_id);
CREATE INDEX agents_by_account ON agents (account_id, created_at, id);
CREATE INDEX agents_by_space ON agents (space_id, created_at, id);
CREATE INDEX agents_deleted ON agents (deleted_at) WHERE deleted_at > 0;

-- Append-only: a version never changes.
CREATE TABLE agent_versions (
    agent_id     TEXT   NOT NULL,
    version      BIGINT NOT NULL,
    instructions TEXT   NOT NULL,
    model        TEXT   NOT NULL,
    drive_access TEXT   NOT NULL,
    max_credits  BIGINT NOT NULL,
    timeout      BIGINT NOT NULL,
    max_steps    BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    PRIMARY KEY (agent_id, version)
);

-- A session row is also its place in the queue. owner and fence are the lease:
-- whoever claims it raises the fence, and a worker writes only under the fence
-- it was given. due_at is when the sweep must look at it: the end of its
-- patience in the queue, of its turn, or of the input it waits for.
CREATE TABLE sessions (
    id               TEXT   PRIMARY KEY,
    account_id       TEXT   NOT NULL,
    space_id         TEXT   NOT NULL,
    agent_id         TEXT   NOT NULL,
    key_id           TEXT   NOT NULL,
    agent_version    BIGINT NOT NULL,
    mode             TEXT   NOT NULL,
    status           TEXT   NOT NULL CHECK (status IN ('queued', 'running', 'completed', 'waiting_for_input', 'failed', 'cancelled')),
    turn             BIGINT NOT NULL,
    reply_id         TEXT   NOT NULL,
    input_id         TEXT   NOT NULL,
    queued_messages  BIGINT NOT NULL,
    model_asked      TEXT   NOT NULL,
    model_served     TEXT   NOT NULL,
    fallback         BIGINT NOT NULL,
    input_tokens     BIGINT NOT NULL,
    output_tokens    BIGINT NOT NULL,
    steps            BIGINT NOT NULL,
    spent            BIGINT NOT NULL,
    last_seq         BIGINT NOT NULL,
    trigger_type     TEXT   NOT NULL,
    trigger_id       TEXT   NOT NULL,
    external_id      TEXT,
    external_user_id TEXT   NOT NULL,
    title            TEXT   NOT NULL,
    metadata         TEXT   NOT NULL,
    max_credits      BIGINT NOT NULL,
    timeout          BIGINT NOT NULL,
    max_steps        BIGINT NOT NULL,
    revision         BIGINT NOT NULL,
    created_at       BIGINT NOT NULL,
    updated_at       BIGINT NOT NULL,
    started_at       BIGINT NOT NULL,
    finished_at      BIGINT NOT NULL,
    owner            TEXT   NOT NULL,
    fence            BIGINT NOT NULL,
    strikes          BIGINT NOT NULL,
    wake_at          BIGINT NOT NULL,
    due_at           BIGINT NOT NULL,
    cancel_at        BIGINT NOT NULL
);
CREATE UNIQUE INDEX sessions_by_external_id ON sessions (account_id, external_id);
CREATE INDEX sessions_by_agent ON sessions (agent_id, created_at, id);
CREATE INDEX sessions_by_user ON sessions (agent_id, external_user_id, created_at, id) WHERE external_user_id <> '';
CREATE INDEX sessions_queued ON sessions (account_id, wake_at, id) WHERE status = 'queued';
CREATE INDEX sessions_waking ON sessions (wake_at) WHERE status = 'queued';
CREATE INDEX sessions_running ON sessions (account_id, owner) WHERE status = 'running';
CREATE INDEX sessions_due ON sessions (due_at) WHERE due_at > 0;

CREATE TABLE turns (
    session_id        TEXT   NOT NULL,
    number            BIGINT NOT NULL,
    id                TEXT   NOT NULL,
    status            TEXT   NOT NULL,
    reason            TEXT   NOT NULL,
    attempt           BIGINT NOT NULL,
    message_id        TEXT   NOT NULL,
    retry_of          BIGINT NOT NULL,
    failure_code      TEXT   NOT NULL,
    failure_message   TEXT   NOT NULL,
    failure_retryable BIGINT NOT NULL,
    spent             BIGINT NOT NULL,
    created_at        BIGINT NOT NULL,
    started_at        BIGINT NOT NULL,
    finished_at       BIGINT NOT NULL,
    deadline_at       BIGINT NOT NULL,
    PRIMARY KEY (session_id, number)
);

-- Append-only: a step that is here is never done again.
CREATE TABLE steps (
    session_id  TEXT   NOT NULL,
    turn        BIGINT NOT NULL,
    number      BIGINT NOT NULL,
    text        TEXT   NOT NULL,
    calls       TEXT   NOT NULL,
    state_wire  TEXT   NOT NULL,
    state_model TEXT   NOT NULL,
    state_data  TEXT   NOT NULL,
    stop        TEXT   NOT NULL,
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (session_id, turn, number)
);

-- Append-only: what a tool answered to the call with that place in its step.
CREATE TABLE step_results (
    session_id TEXT   NOT NULL,
    turn       BIGINT NOT NULL,
    step       BIGINT NOT NULL,
    place      BIGINT NOT NULL,
    call_id    TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    content    TEXT   NOT NULL,
    is_error   BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (session_id, turn, step, place)
);

-- place orders the messages of a session; a queued message gets its turn later.
CREATE TABLE messages (
    id         TEXT   PRIMARY KEY,
    session_id TEXT   NOT NULL,
    place      BIGINT NOT NULL,
    turn       BIGINT NOT NULL,
    step       BIGINT NOT NULL,
    role       TEXT   NOT NULL,
    kind       TEXT   NOT NULL,
    status     TEXT   NOT NULL,
    text       TEXT   NOT NULL,
    first_seq  BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX messages_by_session ON messages (session_id, place);

CREATE TABLE inputs (
    id            TEXT   PRIMARY KEY,
    session_id    TEXT   NOT NULL,
    turn          BIGINT NOT NULL,
    step          BIGINT NOT NULL,
    call_id       TEXT   NOT NULL,
    kind          TEXT   NOT NULL,
    prompt        TEXT   NOT NULL,
    options       TEXT   NOT NULL,
    default_value TEXT,
    status        TEXT   NOT NULL,
    answer        TEXT   NOT NULL,
    created_at    BIGINT NOT NULL,
    expires_at    BIGINT NOT NULL,
    answered_at   BIGINT NOT NULL
);
CREATE INDEX inputs_by_session ON inputs (session_id);

-- Append-only: the log of a session, numbered without gaps.
CREATE TABLE session_events (
    session_id TEXT   NOT NULL,
    seq        BIGINT NOT NULL,
    type       TEXT   NOT NULL,
    at         BIGINT NOT NULL,
    data       TEXT   NOT NULL,
    PRIMARY KEY (session_id, seq)
);

CREATE TABLE sources (
    session_id TEXT   NOT NULL,
    turn       BIGINT NOT NULL,
    path       TEXT   NOT NULL,
    sha256     TEXT   NOT NULL,
    from_line  BIGINT NOT NULL,
    to_line    BIGINT NOT NULL,
    via        TEXT   NOT NULL,
    PRIMARY KEY (session_id, turn, path, sha256, from_line, to_line, via)
);

-- A runner is a process that has claimed sessions; its leases hold until
-- expires_at.
CREATE TABLE runners (
    id         TEXT   PRIMARY KEY,
    expires_at BIGINT NOT NULL
);

CREATE INDEX charges_by_session ON charges (session_id, created_at, id) WHERE session_id <> '';

-- +goose Down
DROP INDEX charges_by_session;
DROP TABLE runners;
DROP TABLE sources;
DROP TABLE session_events;
DROP TABLE inputs;
DROP TABLE messages;
DROP TABLE step_results;
DROP TABLE steps;
DROP TABLE turns;
DROP TABLE sessions;
DROP TABLE agent_versions;
DROP TABLE agents;
DROP TABLE spaces;
