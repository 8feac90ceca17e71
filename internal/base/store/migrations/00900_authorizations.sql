-- +goose Up

-- What came of the newest authorization of a connection by a person. ended_at is 0 while
-- it is pending.
CREATE TABLE authorizations (
    connection_id TEXT   PRIMARY KEY,
    account_id    TEXT   NOT NULL,
    id            TEXT   NOT NULL,
    status        TEXT   NOT NULL,
    message       TEXT   NOT NULL,
    started_at    BIGINT NOT NULL,
    ended_at      BIGINT NOT NULL
);

-- How often in a row the server of a connection's tokens refused to refresh them without
-- a reason that can be read.
ALTER TABLE connection_tokens ADD COLUMN refusals BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE connection_tokens DROP COLUMN refusals;
DROP TABLE authorizations;
