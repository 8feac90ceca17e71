-- +goose Up

-- The outcome of reading the text of content that is not its own text. reader is the version
-- of the readers, negative for content that waits to be read. text_blob_id is the content that
-- has the text, 0 without one; it counts as a reference to that content.
CREATE TABLE drive_texts (
    drive_id      BIGINT NOT NULL,
    blob_id       BIGINT NOT NULL,
    reader        BIGINT NOT NULL,
    status        TEXT NOT NULL,
    text_blob_id  BIGINT NOT NULL DEFAULT 0,
    places        TEXT NOT NULL DEFAULT '',
    pages         BIGINT NOT NULL DEFAULT 0,
    encoding      TEXT NOT NULL DEFAULT '',
    declared      TEXT NOT NULL DEFAULT '', -- the encoding that the owner named
    note          TEXT NOT NULL DEFAULT '',
    tries         BIGINT NOT NULL DEFAULT 0,
    lease_until   BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (drive_id, blob_id)
);
CREATE INDEX drive_texts_due ON drive_texts (reader, drive_id, blob_id);

-- The content that has the text of the file: its own if that is text, 0 without a text.
-- text_size is the size of other content.
ALTER TABLE drive_files ADD COLUMN text_blob_id BIGINT NOT NULL DEFAULT 0;
ALTER TABLE drive_files ADD COLUMN text_size BIGINT NOT NULL DEFAULT 0;
CREATE INDEX drive_files_blob ON drive_files (drive_id, blob_id);
ALTER TABLE drive_versions ADD COLUMN text_size BIGINT NOT NULL DEFAULT 0;

UPDATE drive_files SET text_blob_id = blob_id WHERE is_text = 1;

-- Files without a text are read later, and texts with tags again.
INSERT INTO drive_texts (drive_id, blob_id, reader, status)
    SELECT drive_id, blob_id, -1, 'pending' FROM drive_files WHERE is_text = 0 GROUP BY drive_id, blob_id;
INSERT INTO drive_texts (drive_id, blob_id, reader, status, text_blob_id)
    SELECT drive_id, blob_id, -1, 'ready', blob_id FROM drive_files
    WHERE is_text = 1 AND (mime LIKE 'text/html%' OR mime LIKE 'application/xhtml+xml%' OR mime LIKE 'message/rfc822%'
        OR LOWER(path) LIKE '%.html' OR LOWER(path) LIKE '%.htm' OR LOWER(path) LIKE '%.xhtml' OR LOWER(path) LIKE '%.eml')
    GROUP BY drive_id, blob_id
    ON CONFLICT (drive_id, blob_id) DO NOTHING;

-- A program that does not know these texts would index documents as they are and lose texts.
UPDATE drive_needs SET version = 6;

-- +goose Down
UPDATE drive_needs SET version = 5;
ALTER TABLE drive_versions DROP COLUMN text_size;
DROP INDEX drive_files_blob;
ALTER TABLE drive_files DROP COLUMN text_size;
ALTER TABLE drive_files DROP COLUMN text_blob_id;
DROP TABLE drive_texts;
