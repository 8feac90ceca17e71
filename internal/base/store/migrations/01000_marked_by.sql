-- +goose Up

-- Who marked the input of a call for the vendor's cache: none, caller, stoa or vendor. Empty: the
-- charge is from before that was stored.
ALTER TABLE charges ADD COLUMN marked_by TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE charges DROP COLUMN marked_by;
