-- +goose Up

-- Addresses at which other services start turns of an agent. key_id is the key that a hook ends with; disabled is why
-- it accepts nothing (empty: it accepts requests). The columns that end in _path are JSON Pointers into the body of
-- a request; event_path may be the name of a header instead. sealed has the secrets that sign the requests.
CREATE TABLE hooks (
    id                 TEXT   PRIMARY KEY,
    account_id         TEXT   NOT NULL REFERENCES accounts (id),
    agent_id           TEXT   NOT NULL,
    key_id             TEXT   NOT NULL,
    name               TEXT   NOT NULL,
    signature          TEXT   NOT NULL,
    message_path       TEXT   NOT NULL,
    external_path      TEXT   NOT NULL,
    user_path          TEXT   NOT NULL,
    event_path         TEXT   NOT NULL,
    mode               TEXT   NOT NULL,
    networks           TEXT   NOT NULL,
    turns_per_day      BIGINT NOT NULL,
    max_credits        BIGINT NOT NULL,
    disabled           TEXT   NOT NULL,
    sealed             TEXT   NOT NULL,
    secret_version     BIGINT NOT NULL,
    revision           BIGINT NOT NULL,
    created_at         BIGINT NOT NULL,
    updated_at         BIGINT NOT NULL
);
CREATE INDEX hooks_by_agent ON hooks (account_id, agent_id, created_at, id);
CREATE INDEX hooks_by_key ON hooks (account_id, key_id) WHERE disabled = '';

-- The events of the last days that started a turn, by a hash of their ids: a row is written in the transaction of the
-- turn, so that an event starts at most one.
CREATE TABLE hook_events (
    account_id TEXT   NOT NULL,
    hook_id    TEXT   NOT NULL,
    event      TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (account_id, hook_id, event)
);
CREATE INDEX hook_events_by_hook ON hook_events (account_id, hook_id, created_at);
CREATE INDEX hook_events_by_time ON hook_events (created_at);

-- +goose Down
DROP TABLE hook_events;
DROP TABLE hooks;
