-- +goose Up

-- Rows of the request log with the mark 64 are of calls that were refused before a provider received them: they are
-- removed first, so that they never displace others.
CREATE INDEX requests_refused ON requests (account_id, created_at, id) WHERE (marks & 64) <> 0;

-- +goose Down
DROP INDEX requests_refused;
