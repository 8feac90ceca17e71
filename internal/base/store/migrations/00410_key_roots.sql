-- +goose Up

-- The key whose book a key shares: requests, event streams and credits of a day
-- are counted under it. Empty: the key itself.
ALTER TABLE keys ADD COLUMN root_id TEXT NOT NULL DEFAULT '';
