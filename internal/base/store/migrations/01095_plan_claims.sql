-- +goose Up

-- Until when a node closes the period; other nodes leave it alone.
ALTER TABLE plan_periods ADD COLUMN claimed_until BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE plan_periods DROP COLUMN claimed_until;
