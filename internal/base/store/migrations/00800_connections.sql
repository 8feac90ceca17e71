-- Connections to servers that have tools, and the secrets that they want.

-- +goose Up

-- sealed is the encrypted value, bound to account, id, kind, version and origin: see
-- package vault.
CREATE TABLE secrets (
    id          TEXT   PRIMARY KEY,
    account_id  TEXT   NOT NULL REFERENCES accounts (id),
    name        TEXT   NOT NULL,
    kind        TEXT   NOT NULL,
    header_name TEXT   NOT NULL,
    origin      TEXT   NOT NULL,
    hint        TEXT   NOT NULL,
    sealed      TEXT   NOT NULL,
    version     BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL
);
CREATE INDEX secrets_by_account ON secrets (account_id, created_at, id);

-- secret_id is empty where requests carry none; checked_at is 0 before the first
-- refresh.
CREATE TABLE connections (
    id             TEXT   PRIMARY KEY,
    account_id     TEXT   NOT NULL REFERENCES accounts (id),
    space_id       TEXT   NOT NULL,
    kind           TEXT   NOT NULL,
    name           TEXT   NOT NULL,
    url            TEXT   NOT NULL,
    secret_id      TEXT   NOT NULL,
    headers        TEXT   NOT NULL,
    metadata       TEXT   NOT NULL,
    protocol       TEXT   NOT NULL,
    server_name    TEXT   NOT NULL,
    server_version TEXT   NOT NULL,
    instructions   TEXT   NOT NULL,
    error_code     TEXT   NOT NULL,
    error_message  TEXT   NOT NULL,
    revision       BIGINT NOT NULL,
    checked_at     BIGINT NOT NULL,
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    UNIQUE (account_id, space_id, name)
);
CREATE INDEX connections_by_account ON connections (account_id, created_at, id);
CREATE INDEX connections_by_secret ON connections (account_id, secret_id, id) WHERE secret_id <> '';

-- The catalog of a connection: what its server said of each tool at the last refresh,
-- and what was decided about it. definition is canonical JSON. approved_definition is
-- the one that agents may use.
CREATE TABLE connection_tools (
    account_id          TEXT   NOT NULL REFERENCES accounts (id),
    connection_id       TEXT   NOT NULL,
    name                TEXT   NOT NULL,
    model_name          TEXT   NOT NULL,
    definition          TEXT   NOT NULL,
    sha256              TEXT   NOT NULL,
    problem             TEXT   NOT NULL,
    present             BIGINT NOT NULL,
    approved_definition TEXT   NOT NULL,
    approved_sha256     TEXT   NOT NULL,
    rejected_sha256     TEXT   NOT NULL,
    approval            TEXT   NOT NULL,
    effects             TEXT   NOT NULL,
    state               TEXT   NOT NULL,
    PRIMARY KEY (account_id, connection_id, name)
);

CREATE INDEX connection_tools_by_state ON connection_tools (account_id, connection_id, state);

-- +goose Down
DROP TABLE connection_tools;
DROP TABLE connections;
DROP TABLE secrets;
