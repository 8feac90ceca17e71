-- +goose Up

-- The request log: a row for each call of the model endpoint that an account made,
-- and for each that was refused. No text of callers or models. created_at differs in
-- all rows and goes up in the order in which they were committed; see request_clock.
-- marks has a bit each: 1 charged, 2 stream, 4 estimated, 8 clamped,
-- 16 disconnected, 32 replayed. Texts are empty and numbers 0 where nothing is known.
CREATE TABLE requests (
    id            TEXT   PRIMARY KEY,
    created_at    BIGINT NOT NULL,
    account_id    TEXT   NOT NULL,
    key_id        TEXT   NOT NULL,
    asked         TEXT   NOT NULL,
    served        TEXT   NOT NULL,
    provider      TEXT   NOT NULL,
    attempts      BIGINT NOT NULL,
    status        BIGINT NOT NULL,
    code          TEXT   NOT NULL,
    param         TEXT   NOT NULL,
    input_tokens  BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    amount        BIGINT NOT NULL,
    response_id   TEXT   NOT NULL,
    marks         BIGINT NOT NULL,
    first_token   BIGINT NOT NULL, -- microseconds, as duration
    duration      BIGINT NOT NULL,
    started_at    BIGINT NOT NULL,
    address       TEXT   NOT NULL
);
CREATE INDEX requests_by_account ON requests (account_id, created_at, id);
CREATE INDEX requests_by_time ON requests (created_at, id);

-- One row, once there are requests. Whoever writes requests holds it until the commit, so that rows are never
-- seen after others with a later created_at.
CREATE TABLE request_clock (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    at BIGINT NOT NULL
);

-- How many rows of requests an account has.
CREATE TABLE request_counts (
    account_id TEXT   PRIMARY KEY,
    kept       BIGINT NOT NULL
);

-- How many requests of an account are missing, as they could not be written in time.
CREATE TABLE request_drops (
    account_id TEXT   PRIMARY KEY,
    dropped    BIGINT NOT NULL,
    first_at   BIGINT NOT NULL,
    last_at    BIGINT NOT NULL
);
CREATE INDEX request_drops_last ON request_drops (last_at);

-- +goose Down
DROP TABLE request_drops;
DROP TABLE request_counts;
DROP TABLE request_clock;
DROP TABLE requests;
