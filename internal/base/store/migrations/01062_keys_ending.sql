-- +goose Up

-- What remains to be ended of the objects of a revoked key, as the bits of KeyObjects. It is set with
-- the revocation, so that the end continues if the process dies.
ALTER TABLE keys ADD COLUMN ending BIGINT NOT NULL DEFAULT 0;
CREATE INDEX keys_ending ON keys (id) WHERE ending <> 0;

-- +goose Down
DROP INDEX keys_ending;
ALTER TABLE keys DROP COLUMN ending;
