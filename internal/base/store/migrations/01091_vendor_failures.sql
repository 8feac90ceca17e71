-- +goose Up

-- Requests that failed free of charge after their provider had received them, and that it may bill:
-- the usage that it reported before, or with estimated 1 an estimate. served is the model.
CREATE TABLE vendor_failures (
    id                 TEXT   PRIMARY KEY,
    account_id         TEXT   NOT NULL,
    provider           TEXT   NOT NULL,
    served             TEXT   NOT NULL,
    input_tokens       BIGINT NOT NULL,
    cached_tokens      BIGINT NOT NULL,
    cache_write_tokens BIGINT NOT NULL,
    output_tokens      BIGINT NOT NULL,
    reasoning_tokens   BIGINT NOT NULL,
    estimated          BIGINT NOT NULL,
    created_at         BIGINT NOT NULL
);
CREATE INDEX vendor_failures_by_account ON vendor_failures (account_id, created_at);
CREATE INDEX vendor_failures_by_time ON vendor_failures (created_at, id);

-- +goose Down
DROP TABLE vendor_failures;
