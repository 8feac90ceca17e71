-- +goose Up

-- Input that a vendor wrote to its cache has rates of its own, for a short and for a
-- long life. NULL: the charge is from before them, and took writes as input.
ALTER TABLE charges ADD COLUMN cache_write_long_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE charges ADD COLUMN price_cache_write BIGINT;
ALTER TABLE charges ADD COLUMN price_cache_write_long BIGINT;

-- +goose Down
ALTER TABLE charges DROP COLUMN price_cache_write_long;
ALTER TABLE charges DROP COLUMN price_cache_write;
ALTER TABLE charges DROP COLUMN cache_write_long_tokens;
