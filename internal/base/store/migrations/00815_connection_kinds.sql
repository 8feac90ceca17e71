-- +goose Up

-- Connections of the kinds http and openapi, and limits of the calls of each. url is empty
-- until the document at document_url was read, where that is to say it.
ALTER TABLE connections ADD COLUMN document_url TEXT NOT NULL DEFAULT '';
ALTER TABLE connections ADD COLUMN on_change TEXT NOT NULL DEFAULT 'block';
ALTER TABLE connections ADD COLUMN timeout_seconds BIGINT NOT NULL DEFAULT 30;
ALTER TABLE connections ADD COLUMN max_result_bytes BIGINT NOT NULL DEFAULT 262144;
ALTER TABLE connections ADD COLUMN max_concurrent BIGINT NOT NULL DEFAULT 8;
ALTER TABLE connections ADD COLUMN calls_per_minute BIGINT NOT NULL DEFAULT 60;

-- What the tools of a connection are made from: the operations of one of the kind http,
-- as JSON, or the text of an OpenAPI document. A table of its own, since it may be large.
CREATE TABLE connection_sources (
    account_id    TEXT NOT NULL REFERENCES accounts (id),
    connection_id TEXT NOT NULL,
    source        TEXT NOT NULL,
    PRIMARY KEY (account_id, connection_id)
);

-- Whether a tool may be offered in the sessions of visitors, as it was reviewed.
ALTER TABLE connection_tools ADD COLUMN visitors TEXT NOT NULL DEFAULT 'no';

-- +goose Down
ALTER TABLE connection_tools DROP COLUMN visitors;
DROP TABLE connection_sources;
ALTER TABLE connections DROP COLUMN calls_per_minute;
ALTER TABLE connections DROP COLUMN max_concurrent;
ALTER TABLE connections DROP COLUMN max_result_bytes;
ALTER TABLE connections DROP COLUMN timeout_seconds;
ALTER TABLE connections DROP COLUMN on_change;
ALTER TABLE connections DROP COLUMN document_url;
