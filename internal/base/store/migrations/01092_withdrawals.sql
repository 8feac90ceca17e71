-- +goose Up

-- What withdrawals could not take. Later grants pay it first.
ALTER TABLE accounts ADD COLUMN owed BIGINT NOT NULL DEFAULT 0 CHECK (owed >= 0);

-- Withdrawals of credits. taken is a row of grants below zero, with the same id, unless it is 0; the
-- rest is owed. Repayments are rows of grants below zero, too. No foreign key, which would lock the
-- account before the lease.
CREATE TABLE withdrawals (
    id            TEXT   PRIMARY KEY,
    account_id    TEXT   NOT NULL,
    amount        BIGINT NOT NULL CHECK (amount > 0),
    taken         BIGINT NOT NULL CHECK (taken >= 0 AND taken <= amount),
    reason        TEXT   NOT NULL DEFAULT '',
    external_ref  TEXT   NOT NULL UNIQUE,
    kind          TEXT   NOT NULL,
    created_at    BIGINT NOT NULL
);
CREATE INDEX withdrawals_by_account ON withdrawals (account_id, created_at, id);

-- +goose Down
DROP TABLE withdrawals;
ALTER TABLE accounts DROP COLUMN owed;
