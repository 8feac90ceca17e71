-- +goose Up

-- The key that replaced this one by a rotation; empty: none did. What the key
-- created goes on under its successor.
ALTER TABLE keys ADD COLUMN successor_id TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE keys DROP COLUMN successor_id;
