-- +goose Up

-- What accounts were charged on a day, for lists of many accounts: a node adds to its
-- own row with each batch of charges. day counts the days since 1970, in UTC; those
-- that no list asks for are removed. The books do not depend on it.
CREATE TABLE charge_days (
    account_id TEXT   NOT NULL,
    day        BIGINT NOT NULL,
    node_id    TEXT   NOT NULL,
    amount     BIGINT NOT NULL,
    PRIMARY KEY (account_id, day, node_id)
);
CREATE INDEX charge_days_by_day ON charge_days (day);
INSERT INTO charge_days (account_id, day, node_id, amount)
    SELECT account_id, CAST(created_at / 86400000000 AS BIGINT), node_id, CAST(SUM(amount) AS BIGINT) FROM charges
    GROUP BY account_id, CAST(created_at / 86400000000 AS BIGINT), node_id HAVING SUM(amount) > 0;

-- +goose Down
DROP TABLE charge_days;
