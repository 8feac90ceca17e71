-- +goose Up

-- People who sign in: by an issuer of OIDC and its subject, or by a link (issuer '', subject the id).
CREATE TABLE people (
    id          TEXT   PRIMARY KEY,
    issuer      TEXT   NOT NULL,
    subject     TEXT   NOT NULL,
    email       TEXT   NOT NULL DEFAULT '',
    name        TEXT   NOT NULL DEFAULT '',
    created_at  BIGINT NOT NULL,
    UNIQUE (issuer, subject)
);

-- The accounts of a person. key_id is the key, of kind "console", through which the person acts:
-- it has the scopes of the role and no secret.
CREATE TABLE members (
    account_id     TEXT   NOT NULL REFERENCES accounts (id),
    person_id      TEXT   NOT NULL REFERENCES people (id),
    role           TEXT   NOT NULL,
    operator_role  TEXT   NOT NULL DEFAULT '',
    source         TEXT   NOT NULL, -- invited or group
    key_id         TEXT   NOT NULL,
    created_at     BIGINT NOT NULL,
    PRIMARY KEY (account_id, person_id)
);
CREATE INDEX members_by_person ON members (person_id);

-- Links that are used once: an invitation to an account, or with a person_id a link to sign in.
CREATE TABLE invitations (
    id             TEXT   PRIMARY KEY,
    hash           TEXT   NOT NULL UNIQUE,
    account_id     TEXT   NOT NULL REFERENCES accounts (id),
    person_id      TEXT   NOT NULL DEFAULT '',
    role           TEXT   NOT NULL DEFAULT '',
    operator_role  TEXT   NOT NULL DEFAULT '',
    name           TEXT   NOT NULL DEFAULT '',
    made_by        TEXT   NOT NULL DEFAULT '',
    created_at     BIGINT NOT NULL,
    expires_at     BIGINT NOT NULL,
    used_at        BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX invitations_of_account ON invitations (account_id, created_at, id);

-- Sessions of the console, by the hash of their cookie: of a person, or of a key that was pasted.
CREATE TABLE console_sessions (
    hash        TEXT   PRIMARY KEY,
    person_id   TEXT   NOT NULL DEFAULT '',
    key_id      TEXT   NOT NULL DEFAULT '',
    created_at  BIGINT NOT NULL,
    seen_at     BIGINT NOT NULL,
    expires_at  BIGINT NOT NULL
);
CREATE INDEX console_sessions_by_person ON console_sessions (person_id) WHERE person_id <> '';
CREATE INDEX console_sessions_by_key ON console_sessions (key_id) WHERE key_id <> '';
CREATE INDEX console_sessions_by_end ON console_sessions (expires_at);

ALTER TABLE keys ADD COLUMN kind TEXT NOT NULL DEFAULT '';
ALTER TABLE keys ADD COLUMN member_id TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE keys DROP COLUMN member_id;
ALTER TABLE keys DROP COLUMN kind;
DROP TABLE console_sessions;
DROP TABLE invitations;
DROP TABLE members;
DROP TABLE people;
