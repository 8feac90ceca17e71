-- +goose Up

-- The models that a key may use and the networks from which it may be used, with spaces between;
-- empty means all. require_end_user 1: a model call must name its end user.
ALTER TABLE keys ADD COLUMN models TEXT NOT NULL DEFAULT '';
ALTER TABLE keys ADD COLUMN networks TEXT NOT NULL DEFAULT '';
ALTER TABLE keys ADD COLUMN require_end_user BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE keys DROP COLUMN require_end_user;
ALTER TABLE keys DROP COLUMN networks;
ALTER TABLE keys DROP COLUMN models;
