-- +goose Up

-- The node that claims a payment or the period of a plan: its claim ends with it. Empty without a claim.
ALTER TABLE payments ADD COLUMN claimed_by TEXT NOT NULL DEFAULT '';
ALTER TABLE plan_periods ADD COLUMN claimed_by TEXT NOT NULL DEFAULT '';
CREATE INDEX payments_claimed ON payments (claimed_by) WHERE claimed_by <> '';
CREATE INDEX plan_periods_claimed ON plan_periods (claimed_by) WHERE claimed_by <> '';

-- +goose Down
DROP INDEX plan_periods_claimed;
DROP INDEX payments_claimed;
ALTER TABLE plan_periods DROP COLUMN claimed_by;
ALTER TABLE payments DROP COLUMN claimed_by;
