-- Webhooks: what happens in an account is sent to addresses of its owner.
--
-- One text for SQLite and PostgreSQL; see 0001 for how values are kept.

-- +goose Up

-- A webhook (whk_). events and spaces have a space before, between and behind their
-- words; events '*' is all, spaces '' is all. An empty url: what happens is kept to be
-- read. key_id is the key that it ends with. sealed has its secrets, encrypted;
-- secret_version counts their changes. disabled is why nothing is sent; empty: it is.
-- mark, two letters, tells the webhooks of an account apart: with it an INSERT of
-- deliveries makes their ids. failing_since is the first attempt that failed after the
-- newest success, failed how many deliveries were given up since then; 0: none.
CREATE TABLE webhooks (
    id              TEXT   PRIMARY KEY,
    account_id      TEXT   NOT NULL REFERENCES accounts (id),
    key_id          TEXT   NOT NULL,
    url             TEXT   NOT NULL,
    events          TEXT   NOT NULL,
    spaces          TEXT   NOT NULL,
    description     TEXT   NOT NULL,
    credits_low     BIGINT NOT NULL,
    sealed          TEXT   NOT NULL,
    secret_version  BIGINT NOT NULL,
    disabled        TEXT   NOT NULL,
    mark            TEXT   NOT NULL,
    failing_since   BIGINT NOT NULL,
    failed          BIGINT NOT NULL,
    last_success_at BIGINT NOT NULL,
    enabled_at      BIGINT NOT NULL,
    revision        BIGINT NOT NULL,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL
);
CREATE INDEX webhooks_by_account ON webhooks (account_id, created_at, id);
CREATE UNIQUE INDEX webhooks_by_mark ON webhooks (account_id, mark);
CREATE INDEX webhooks_by_key ON webhooks (key_id) WHERE disabled = '';

-- An event for one webhook (dlv_): the outbox. body is what is signed and sent, as it
-- is. status is pending, delivered, failed or held. once: a test, which is sent once.
-- round counts the attempts since it was put into the queue, attempts all of them, and
-- log has the newest, as JSON. While it is being sent, lease names who sends it, and
-- due_at is when it may be claimed again. first_at is the first attempt of the round.
CREATE TABLE deliveries (
    id          TEXT   PRIMARY KEY,
    account_id  TEXT   NOT NULL,
    webhook_id  TEXT   NOT NULL,
    event_id    TEXT   NOT NULL,
    type        TEXT   NOT NULL,
    body        TEXT   NOT NULL,
    status      TEXT   NOT NULL,
    once        BIGINT NOT NULL,
    due_at      BIGINT NOT NULL,
    lease       TEXT   NOT NULL,
    round       BIGINT NOT NULL,
    attempts    BIGINT NOT NULL,
    log         TEXT   NOT NULL,
    first_at    BIGINT NOT NULL,
    finished_at BIGINT NOT NULL,
    created_at  BIGINT NOT NULL
);
CREATE INDEX deliveries_by_webhook ON deliveries (account_id, webhook_id, created_at, id);
CREATE INDEX deliveries_pending ON deliveries (webhook_id, due_at) WHERE status = 'pending';

-- What was told once, such as that a key expires soon: it is not told again while the
-- row is there.
CREATE TABLE webhook_notices (
    account_id TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    at         BIGINT NOT NULL,
    PRIMARY KEY (account_id, name)
);
CREATE INDEX webhook_notices_by_time ON webhook_notices (at);

-- The sweep that tells of keys which expire soon.
CREATE INDEX keys_by_expiry ON keys (expires_at, id) WHERE expires_at > 0;

-- +goose Down
DROP INDEX keys_by_expiry;
DROP TABLE webhook_notices;
DROP TABLE deliveries;
DROP TABLE webhooks;
