-- +goose Up

-- created_at differs in all rows of the request log, so its indexes need no id. marks has two more bits: with 128 the
-- model that served is the one that was asked for, and asked is empty; with 256 the response has the letters of the
-- request after "resp_", and response_id is empty. attempts is there for PostgreSQL: it takes an index of created_at alone for
-- so cheap that it would look for the rows of a busy account among those of all.
DROP INDEX requests_by_account;
DROP INDEX requests_by_time;
CREATE INDEX requests_by_account ON requests (account_id, created_at);
CREATE INDEX requests_by_time ON requests (created_at, attempts);

-- +goose Down
UPDATE requests SET asked = served WHERE (marks & 128) <> 0;
UPDATE requests SET response_id = 'resp' || substr(id, 4) WHERE (marks & 256) <> 0;
UPDATE requests SET marks = marks & 127 WHERE marks > 127;
DROP INDEX requests_by_account;
DROP INDEX requests_by_time;
CREATE INDEX requests_by_account ON requests (account_id, created_at, id);
CREATE INDEX requests_by_time ON requests (created_at, id);
