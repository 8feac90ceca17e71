-- +goose Up

-- The paths of members of the request that had no effect, one per line.
ALTER TABLE charges ADD COLUMN ignored TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE charges DROP COLUMN ignored;
