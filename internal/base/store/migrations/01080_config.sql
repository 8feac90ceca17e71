-- +goose Up

-- Applied versions of the managed settings: providers, families, models, auto, aliases and plans, as
-- JSON in the form of the configuration file. Keys of providers are ids of config_secrets there.
CREATE TABLE config_versions (
    n           BIGINT PRIMARY KEY,
    body        TEXT   NOT NULL,
    changes     TEXT   NOT NULL, -- JSON: what differs from the version before
    author      TEXT   NOT NULL, -- the id of a key
    note        TEXT   NOT NULL,
    created_at  BIGINT NOT NULL
);

-- The draft of the next version, if there is one. base is the version that it was made from.
CREATE TABLE config_draft (
    id          BIGINT PRIMARY KEY CHECK (id = 1),
    body        TEXT   NOT NULL,
    base        BIGINT NOT NULL,
    revision    BIGINT NOT NULL,
    author      TEXT   NOT NULL,
    updated_at  BIGINT NOT NULL
);

-- Encrypted keys of providers, each bound to the name of its provider and the origin to which it may be sent.
CREATE TABLE config_secrets (
    id          TEXT   PRIMARY KEY,
    provider    TEXT   NOT NULL,
    origin      TEXT   NOT NULL,
    sealed      TEXT   NOT NULL,
    created_at  BIGINT NOT NULL
);
CREATE INDEX config_secrets_by_time ON config_secrets (created_at);

-- The version that a node uses, and why it could not take the newest one.
ALTER TABLE nodes ADD COLUMN config_version BIGINT NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN config_problem TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE nodes DROP COLUMN config_problem;
ALTER TABLE nodes DROP COLUMN config_version;
DROP TABLE config_secrets;
DROP TABLE config_draft;
DROP TABLE config_versions;
