-- +goose Up

-- Why the provider of a charge served its call: order, reasoning, cache or failover. Empty: the
-- charge is from before that was stored.
ALTER TABLE charges ADD COLUMN route_reason TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE charges DROP COLUMN route_reason;
