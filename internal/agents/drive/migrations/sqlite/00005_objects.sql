-- +goose Up

-- The object in the bucket that holds the bytes of a blob; empty: they are in
-- drive_pieces. With an object, drive_pieces has one row with the SHA-256 of each
-- piece of it.
ALTER TABLE drive_blobs ADD COLUMN object TEXT NOT NULL DEFAULT '';

-- Every object that may be in the bucket. blob_id is 0 before a blob refers to it
-- and again once none does, -1 while it is removed; since is when that began.
CREATE TABLE drive_objects (
    key         TEXT PRIMARY KEY,
    account_id  TEXT NOT NULL,
    size        BIGINT NOT NULL,
    blob_id     BIGINT NOT NULL,
    since       BIGINT NOT NULL
);
CREATE INDEX drive_objects_free ON drive_objects (since) WHERE blob_id <= 0;
CREATE INDEX drive_objects_free_of ON drive_objects (account_id, size) WHERE blob_id <= 0;
CREATE INDEX drive_objects_blob ON drive_objects (blob_id) WHERE blob_id > 0;

-- A program that does not know objects would give out hashes as content.
UPDATE drive_needs SET version = 5;

-- +goose Down
UPDATE drive_needs SET version = 4;
DROP TABLE drive_objects;
ALTER TABLE drive_blobs DROP COLUMN object;
