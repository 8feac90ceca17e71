-- +goose Up

-- The part of a session's call that differs from the call before, so that the vendor could not
-- read it from its cache; expired if none does and the vendor read nothing.
ALTER TABLE charges ADD COLUMN broke TEXT NOT NULL DEFAULT '';

-- Hashes of the parts with which the call of a step begins; see agent.fingerprint.
ALTER TABLE steps ADD COLUMN prefix TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE steps DROP COLUMN prefix;
ALTER TABLE charges DROP COLUMN broke;
