-- +goose Up
-- The rules of a model's price that apply to a call, such as its longer prompts; empty for none.
ALTER TABLE charges ADD COLUMN price_band TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE charges DROP COLUMN price_band;
