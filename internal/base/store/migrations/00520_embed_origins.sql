-- +goose Up

-- The embed sessions of an origin, the newest last: most of them have ended.
CREATE INDEX embed_origins_newest ON embed_origins (origin, embed_id);
DROP INDEX embed_origins_by_origin;

-- +goose Down
CREATE INDEX embed_origins_by_origin ON embed_origins (origin);
DROP INDEX embed_origins_newest;
