-- +goose Up

-- The id of the provider's key that served a charge, if the provider has several.
ALTER TABLE charges ADD COLUMN route_key TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE charges DROP COLUMN route_key;
