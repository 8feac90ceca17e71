-- Accounts, keys and the ledger.
--
-- One text for SQLite and PostgreSQL. BIGINT is an integer on both; times are
-- microseconds since 1970, 0 for "never"; truths are 0 or 1; amounts are
-- micro-credits.

-- +goose Up

-- A node is one life of one process. Once it is dead it never lives again.
CREATE TABLE nodes (
    id         TEXT   PRIMARY KEY,
    alive      BIGINT NOT NULL CHECK (alive IN (0, 1)),
    started_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL DEFAULT 0
);

-- granted is the sum of the account's grants; balance is what is neither leased
-- nor spent.
CREATE TABLE accounts (
    id               TEXT   PRIMARY KEY,
    name             TEXT   NOT NULL,
    email            TEXT   NOT NULL DEFAULT '',
    plan             TEXT   NOT NULL,
    suspended        BIGINT NOT NULL DEFAULT 0 CHECK (suspended IN (0, 1)),
    default_space_id TEXT   NOT NULL DEFAULT '',
    granted          BIGINT NOT NULL DEFAULT 0 CHECK (granted >= 0),
    balance          BIGINT NOT NULL DEFAULT 0,
    created_at       BIGINT NOT NULL,
    updated_at       BIGINT NOT NULL,
    CHECK (balance >= 0 AND balance <= granted)
);
CREATE INDEX accounts_by_time ON accounts (created_at, id);

CREATE TABLE keys (
    id           TEXT   PRIMARY KEY,
    account_id   TEXT   NOT NULL REFERENCES accounts (id),
    hash         TEXT   NOT NULL UNIQUE,
    name         TEXT   NOT NULL DEFAULT '',
    hint         TEXT   NOT NULL,
    scopes       TEXT   NOT NULL,
    rpm          BIGINT NOT NULL DEFAULT 0 CHECK (rpm >= 0),
    max_per_day  BIGINT NOT NULL DEFAULT 0 CHECK (max_per_day >= 0),
    expires_at   BIGINT NOT NULL DEFAULT 0,
    revoked_at   BIGINT NOT NULL DEFAULT 0,
    last_used_at BIGINT NOT NULL DEFAULT 0,
    created_at   BIGINT NOT NULL
);
CREATE INDEX keys_by_account ON keys (account_id, created_at, id);

-- Grants are append-only. A correction is a new row.
CREATE TABLE grants (
    id           TEXT   PRIMARY KEY,
    account_id   TEXT   NOT NULL REFERENCES accounts (id),
    amount       BIGINT NOT NULL CHECK (amount <> 0),
    reason       TEXT   NOT NULL DEFAULT '',
    external_ref TEXT   UNIQUE,
    created_at   BIGINT NOT NULL
);
CREATE INDEX grants_by_account ON grants (account_id, created_at, id);

-- A lease is credits of an account that a node may spend from memory. spent is
-- the sum of the charges that name the lease.
CREATE TABLE leases (
    id         TEXT   PRIMARY KEY,
    account_id TEXT   NOT NULL REFERENCES accounts (id),
    node_id    TEXT   NOT NULL REFERENCES nodes (id),
    amount     BIGINT NOT NULL,
    spent      BIGINT NOT NULL DEFAULT 0,
    is_open    BIGINT NOT NULL DEFAULT 1 CHECK (is_open IN (0, 1)),
    created_at BIGINT NOT NULL,
    closed_at  BIGINT NOT NULL DEFAULT 0,
    CHECK (spent >= 0 AND spent <= amount)
);
CREATE INDEX leases_open ON leases (account_id) WHERE is_open = 1;
CREATE UNIQUE INDEX leases_one_per_node ON leases (account_id, node_id) WHERE is_open = 1;
CREATE INDEX leases_by_node ON leases (node_id);
CREATE INDEX leases_by_account ON leases (account_id, created_at, id);

-- Charges are append-only. The rates are kept so that every amount can be
-- computed again. No foreign keys: this is the one table on the path of every
-- call, and `stoa ledger verify` checks what they would.
CREATE TABLE charges (
    id                 TEXT   PRIMARY KEY,
    account_id         TEXT   NOT NULL,
    key_id             TEXT   NOT NULL,
    lease_id           TEXT   NOT NULL,
    node_id            TEXT   NOT NULL,
    asked              TEXT   NOT NULL,
    served             TEXT   NOT NULL,
    reason             TEXT   NOT NULL,
    provider           TEXT   NOT NULL,
    input_tokens       BIGINT NOT NULL,
    cached_tokens      BIGINT NOT NULL,
    cache_write_tokens BIGINT NOT NULL,
    output_tokens      BIGINT NOT NULL,
    reasoning_tokens   BIGINT NOT NULL,
    price_input        BIGINT NOT NULL,
    price_cached_input BIGINT NOT NULL,
    price_output       BIGINT NOT NULL,
    price_version      TEXT   NOT NULL,
    amount             BIGINT NOT NULL CHECK (amount >= 0),
    estimated          BIGINT NOT NULL,
    clamped            BIGINT NOT NULL,
    capped             BIGINT NOT NULL,
    written_off        BIGINT NOT NULL CHECK (written_off >= 0),
    state              TEXT   NOT NULL,
    end_user           TEXT   NOT NULL,
    space_id           TEXT   NOT NULL,
    agent_id           TEXT   NOT NULL,
    session_id         TEXT   NOT NULL,
    started_at         BIGINT NOT NULL,
    first_token        BIGINT NOT NULL,
    duration           BIGINT NOT NULL,
    created_at         BIGINT NOT NULL
);
CREATE INDEX charges_by_account ON charges (account_id, created_at, id);

-- What is left of charges that were removed because their time was over: their
-- sum, per lease.
CREATE TABLE purged_charges (
    account_id  TEXT   NOT NULL,
    lease_id    TEXT   NOT NULL,
    charges     BIGINT NOT NULL CHECK (charges >= 0),
    amount      BIGINT NOT NULL CHECK (amount >= 0),
    written_off BIGINT NOT NULL CHECK (written_off >= 0),
    last_at     BIGINT NOT NULL,
    PRIMARY KEY (account_id, lease_id)
);

-- What a caller's Idempotency-Key stands for. While running, owner is the node
-- that works on it; once done, the reply is kept until expires_at.
CREATE TABLE idempotency (
    account_id TEXT   NOT NULL,
    method     TEXT   NOT NULL,
    path       TEXT   NOT NULL,
    key        TEXT   NOT NULL,
    body_hash  TEXT   NOT NULL,
    state      TEXT   NOT NULL CHECK (state IN ('running', 'done')),
    owner      TEXT   NOT NULL,
    claim      TEXT   NOT NULL,
    ref        TEXT   NOT NULL DEFAULT '',
    status     BIGINT NOT NULL DEFAULT 0,
    headers    TEXT   NOT NULL DEFAULT '',
    body       TEXT   NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (account_id, method, path, key)
);
CREATE INDEX idempotency_by_expiry ON idempotency (expires_at);

-- +goose Down
DROP TABLE idempotency;
DROP TABLE purged_charges;
DROP TABLE charges;
DROP TABLE leases;
DROP TABLE grants;
DROP TABLE keys;
DROP TABLE accounts;
DROP TABLE nodes;
