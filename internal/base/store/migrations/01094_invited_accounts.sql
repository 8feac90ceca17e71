-- +goose Up

-- An invitation with an account_name creates an account of that name when it is accepted, with a plan and first
-- credits. account_id is the account whose key created the invitation.
ALTER TABLE invitations ADD COLUMN account_name TEXT NOT NULL DEFAULT '';
ALTER TABLE invitations ADD COLUMN plan TEXT NOT NULL DEFAULT '';
ALTER TABLE invitations ADD COLUMN grant_micro BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE invitations DROP COLUMN grant_micro;
ALTER TABLE invitations DROP COLUMN plan;
ALTER TABLE invitations DROP COLUMN account_name;
