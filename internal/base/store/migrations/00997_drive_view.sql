-- +goose Up

-- The part of the drive that the prompts of a session contain, as JSON; see agent.view.
ALTER TABLE sessions ADD COLUMN drive_view TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE sessions DROP COLUMN drive_view;
