-- +goose Up

-- For lists of receipts by what only some calls have: an agent, a space, an end
-- user. A plain call is in none of them, so that its charge costs no more.
-- Receipts by key or model are looked for in the account's own order instead.
CREATE INDEX charges_by_agent ON charges (account_id, agent_id, created_at, id) WHERE agent_id <> '';
CREATE INDEX charges_by_space ON charges (account_id, space_id, created_at, id) WHERE space_id <> '';
CREATE INDEX charges_by_end_user ON charges (account_id, end_user, created_at, id) WHERE end_user <> '';


-- +goose Down
DROP INDEX charges_by_end_user;
DROP INDEX charges_by_space;
DROP INDEX charges_by_agent;
