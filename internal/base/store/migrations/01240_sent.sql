-- +goose Up

-- How the call of a step was made, and the files of the drive in it, as JSON; empty means not recorded. drive_view is also empty if the
-- files are those of the step before.
ALTER TABLE steps ADD COLUMN sent TEXT NOT NULL DEFAULT '';
ALTER TABLE steps ADD COLUMN drive_view TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE steps DROP COLUMN drive_view;
ALTER TABLE steps DROP COLUMN sent;
