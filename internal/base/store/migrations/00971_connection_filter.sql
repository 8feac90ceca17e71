-- +goose Up

-- Which operations of an OpenAPI document are tools, as JSON; empty: all.
-- sessions is how long a session at a server of the connection lasts: turn, or session.
ALTER TABLE connections ADD COLUMN filter TEXT NOT NULL DEFAULT '';
ALTER TABLE connections ADD COLUMN sessions TEXT NOT NULL DEFAULT 'turn';

-- +goose Down
ALTER TABLE connections DROP COLUMN sessions;
ALTER TABLE connections DROP COLUMN filter;
