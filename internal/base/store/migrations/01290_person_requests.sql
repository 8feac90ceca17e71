-- +goose Up

-- For the sessions whose visitors asked for a person lately.
CREATE INDEX sessions_person ON sessions (account_id, person_requested_at) WHERE person_requested_at > 0;

-- +goose Down
DROP INDEX sessions_person;
