-- +goose Up

-- Erasures of customers (kind account) and of end users. account_id is the account that began it and can read it; target is the
-- account whose data is removed. subject is the name of the end user, which is emptied at the end; replacement is the random
-- name in the rows that stay. again_at is the time of a second pass over a deleted account, 0 if there is none.
CREATE TABLE erasures (
    id             TEXT   PRIMARY KEY,
    account_id     TEXT   NOT NULL REFERENCES accounts (id),
    kind           TEXT   NOT NULL,
    target         TEXT   NOT NULL,
    subject        TEXT   NOT NULL,
    replacement    TEXT   NOT NULL,
    sessions       BIGINT NOT NULL DEFAULT 0,
    drives         BIGINT NOT NULL DEFAULT 0,
    removed        BIGINT NOT NULL DEFAULT 0,
    receipts       BIGINT NOT NULL DEFAULT 0,
    audit_entries  BIGINT NOT NULL DEFAULT 0,
    created_at     BIGINT NOT NULL,
    completed_at   BIGINT NOT NULL DEFAULT 0,
    again_at       BIGINT NOT NULL DEFAULT 0,
    claimed_until  BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX erasures_of_account ON erasures (account_id, created_at, id);
CREATE INDEX erasures_of_target ON erasures (target, kind, subject);
CREATE INDEX erasures_due ON erasures (again_at) WHERE again_at > 0;

-- When the account was deleted; 0 if it was not. Its row stays, because its receipts and grants belong to it.
ALTER TABLE accounts ADD COLUMN deleted_at BIGINT NOT NULL DEFAULT 0;

-- The sessions of an end user of any agent.
CREATE INDEX sessions_of_user ON sessions (account_id, external_user_id, id) WHERE external_user_id <> '';

-- +goose Down
DROP INDEX sessions_of_user;
ALTER TABLE accounts DROP COLUMN deleted_at;
DROP TABLE erasures;
