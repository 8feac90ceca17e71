-- +goose Up

-- One row per drive. Its lock is the lock of everything below, and its counters
-- are the quotas' truth. The number is never used again: words in the index
-- begin with it.
CREATE TABLE drive_drives (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    account_id  TEXT NOT NULL,
    agent_id    TEXT NOT NULL,
    revision    BIGINT NOT NULL DEFAULT 0,
    files       BIGINT NOT NULL DEFAULT 0 CHECK (files >= 0),
    bytes       BIGINT NOT NULL DEFAULT 0 CHECK (bytes >= 0),
    old_files   BIGINT NOT NULL DEFAULT 0 CHECK (old_files >= 0),
    old_bytes   BIGINT NOT NULL DEFAULT 0 CHECK (old_bytes >= 0),
    updated_at  BIGINT NOT NULL,
    UNIQUE (account_id, agent_id)
);

-- Content, kept once per drive. A blob that no version refers to waits for the
-- sweep, so that a download under way can finish.
CREATE TABLE drive_blobs (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    drive_id  BIGINT NOT NULL,
    sha256    TEXT NOT NULL,
    size      BIGINT NOT NULL,
    lines     BIGINT NOT NULL,
    refs      BIGINT NOT NULL CHECK (refs >= 0),
    freed_at  BIGINT NOT NULL DEFAULT 0,
    UNIQUE (drive_id, sha256)
);
CREATE INDEX drive_blobs_free ON drive_blobs (freed_at) WHERE refs = 0;

CREATE TABLE drive_pieces (
    blob_id  BIGINT NOT NULL,
    n        BIGINT NOT NULL,
    data     BLOB NOT NULL,
    PRIMARY KEY (blob_id, n)
);

-- The files as they are now.
CREATE TABLE drive_files (
    rid         INTEGER PRIMARY KEY AUTOINCREMENT,
    drive_id    BIGINT NOT NULL,
    path        TEXT NOT NULL,
    id          TEXT NOT NULL,
    version     BIGINT NOT NULL,
    blob_id     BIGINT NOT NULL,
    sha256      TEXT NOT NULL,
    size        BIGINT NOT NULL,
    mime        TEXT NOT NULL,
    is_text     BIGINT NOT NULL,
    lines       BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    UNIQUE (drive_id, path)
);

-- What stood at a path, and until when; retired_at is 0 for what stands there
-- now. The number is the drive's revision after the write.
CREATE TABLE drive_versions (
    drive_id    BIGINT NOT NULL,
    number      BIGINT NOT NULL,
    path        TEXT NOT NULL,
    blob_id     BIGINT NOT NULL,
    sha256      TEXT NOT NULL,
    size        BIGINT NOT NULL,
    mime        TEXT NOT NULL,
    created_at  BIGINT NOT NULL,
    retired_at  BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (drive_id, number)
);
CREATE INDEX drive_versions_path ON drive_versions (drive_id, path, number);
CREATE INDEX drive_versions_old ON drive_versions (drive_id, retired_at, number) WHERE retired_at > 0;

-- Pieces of the present text, for the index: lines and bytes, the last byte
-- excluded.
CREATE TABLE drive_passages (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    drive_id    BIGINT NOT NULL,
    file_rid    BIGINT NOT NULL,
    first_line  BIGINT NOT NULL,
    last_line   BIGINT NOT NULL,
    first_byte  BIGINT NOT NULL,
    end_byte    BIGINT NOT NULL
);
CREATE INDEX drive_passages_file ON drive_passages (file_rid, id);

-- Words come here cut and folded by us, with the drive's number in front; the
-- tokenizer has only to split at spaces.
CREATE VIRTUAL TABLE drive_index USING fts5 (
    path, body, content = '', contentless_delete = 1, tokenize = 'ascii'
);

-- Writes that happen once: the answer of a request with an Idempotency-Key, or
-- of a step's tool call.
CREATE TABLE drive_claims (
    drive_id    BIGINT NOT NULL,
    scope       TEXT NOT NULL,
    ref         TEXT NOT NULL,
    body        TEXT NOT NULL,
    result      TEXT NOT NULL,
    expires_at  BIGINT NOT NULL,
    PRIMARY KEY (drive_id, scope, ref)
);
CREATE INDEX drive_claims_expired ON drive_claims (expires_at);
