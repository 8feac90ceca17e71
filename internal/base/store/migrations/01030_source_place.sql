-- +goose Up

-- The place of a passage in a document, such as "p. 12–13".
ALTER TABLE sources ADD COLUMN place TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE sources DROP COLUMN place;
