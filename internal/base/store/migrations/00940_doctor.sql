-- +goose Up

-- What an operator looks for over all accounts.
CREATE INDEX connections_failing ON connections (account_id, id) WHERE error_code <> '';
CREATE INDEX connections_oauth ON connections (account_id, id) WHERE oauth <> '';
CREATE INDEX inputs_pending ON inputs (created_at, session_id, kind) WHERE status = 'pending';
CREATE INDEX deliveries_failed ON deliveries (finished_at, id) WHERE status = 'failed';

-- +goose Down
DROP INDEX deliveries_failed;
DROP INDEX inputs_pending;
DROP INDEX connections_oauth;
DROP INDEX connections_failing;
