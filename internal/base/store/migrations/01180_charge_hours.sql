-- +goose Up

-- The sums of charges by hour, for usage and statements: a node adds to its own rows in the transaction of the
-- charges. hour counts the hours since 1970, in UTC. Rows without an account are the sums of all accounts, without
-- keys. "stoa ledger verify" compares them with the charges.
CREATE TABLE charge_hours (
    account_id         TEXT   NOT NULL,
    hour               BIGINT NOT NULL,
    served             TEXT   NOT NULL,
    provider           TEXT   NOT NULL,
    key_id             TEXT   NOT NULL,
    node_id            TEXT   NOT NULL,
    calls              BIGINT NOT NULL,
    estimated          BIGINT NOT NULL,
    amount             BIGINT NOT NULL,
    written_off        BIGINT NOT NULL,
    saved              BIGINT NOT NULL,
    input_tokens       BIGINT NOT NULL,
    cached_tokens      BIGINT NOT NULL,
    cache_write_tokens BIGINT NOT NULL,
    output_tokens      BIGINT NOT NULL,
    reasoning_tokens   BIGINT NOT NULL,
    PRIMARY KEY (account_id, hour, served, provider, key_id, node_id)
);
CREATE INDEX charge_hours_by_hour ON charge_hours (hour, account_id);

-- At most one row: how far the service has summed the charges that were there before the table above. Accounts before
-- account_id are done, and of that one the hours before hour. filled_at is 0 until all are done; reports sum the
-- charges themselves until then. Without charges there is nothing to fill, and no row.
CREATE TABLE charge_hours_fill (
    id         BIGINT PRIMARY KEY CHECK (id = 1),
    begun_at   BIGINT NOT NULL,
    filled_at  BIGINT NOT NULL,
    account_id TEXT   NOT NULL,
    hour       BIGINT NOT NULL
);
INSERT INTO charge_hours_fill (id, begun_at, filled_at, account_id, hour)
    SELECT 1, 0, 0, '', 0 WHERE EXISTS (SELECT 1 FROM charges);

-- Whether the node's program writes the sums. An earlier program can serve beside this one, so the sums are filled
-- again after it.
ALTER TABLE nodes ADD COLUMN sums_hours BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE nodes DROP COLUMN sums_hours;
DROP TABLE charge_hours_fill;
DROP TABLE charge_hours;
