-- +goose Up

-- The months in which an account got the credits that its plan includes. amount is the grant without
-- what it repaid; spent is the sum of all charges of the account before it. closed_at is the time at
-- which the unspent part was withdrawn, after the month.
CREATE TABLE plan_periods (
    account_id  TEXT   NOT NULL REFERENCES accounts (id),
    month       TEXT   NOT NULL,
    plan        TEXT   NOT NULL,
    amount      BIGINT NOT NULL,
    spent       BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    closed_at   BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (account_id, month)
);
CREATE INDEX plan_periods_open ON plan_periods (month, account_id) WHERE closed_at = 0;
CREATE INDEX accounts_by_plan ON accounts (plan, id);

-- +goose Down
DROP INDEX accounts_by_plan;
DROP TABLE plan_periods;
