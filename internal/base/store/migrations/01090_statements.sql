-- +goose Up

-- How an account got the credits of a row: see stoa.GrantKind. A row below zero is a withdrawal.
ALTER TABLE grants ADD COLUMN kind TEXT NOT NULL DEFAULT 'grant';

-- The statements of months that are final, of the accounts that had grants or charges in them. month
-- is text such as 2026-11, of UTC. grants and charges are JSON. Rows are never changed.
CREATE TABLE statements (
    account_id  TEXT   NOT NULL REFERENCES accounts (id),
    month       TEXT   NOT NULL,
    opening     BIGINT NOT NULL,
    charged     BIGINT NOT NULL,
    closing     BIGINT NOT NULL,
    grants      TEXT   NOT NULL,
    charges     TEXT   NOT NULL,
    final_at    BIGINT NOT NULL,
    PRIMARY KEY (account_id, month)
);

-- The months whose statements are all final.
CREATE TABLE statement_months (
    month     TEXT   PRIMARY KEY,
    final_at  BIGINT NOT NULL
);

-- +goose Down
DROP TABLE statement_months;
DROP TABLE statements;
ALTER TABLE grants DROP COLUMN kind;
