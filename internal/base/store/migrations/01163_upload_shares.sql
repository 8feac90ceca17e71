-- +goose Up

-- The script tag and a hash of the network of the visitor who sent an upload, for their shares; empty without.
ALTER TABLE uploads ADD COLUMN tag_id TEXT NOT NULL DEFAULT '';
ALTER TABLE uploads ADD COLUMN network TEXT NOT NULL DEFAULT '';
CREATE INDEX uploads_of_tags ON uploads (account_id, tag_id, size) WHERE tag_id <> '';
CREATE INDEX uploads_of_networks ON uploads (account_id, network, created_at, size) WHERE network <> '';

-- +goose Down
DROP INDEX uploads_of_networks;
DROP INDEX uploads_of_tags;
ALTER TABLE uploads DROP COLUMN network;
ALTER TABLE uploads DROP COLUMN tag_id;
