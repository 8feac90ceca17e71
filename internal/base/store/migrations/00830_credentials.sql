-- +goose Up

-- What a secret is for, beside its origin: a space and an external user; empty: any.
-- last_used_at is exact to a minute. expires_at: it is not sent from then on; 0: never.
-- header_name is the name of a header, or that of a parameter.
ALTER TABLE secrets ADD COLUMN space_id TEXT NOT NULL DEFAULT '';
ALTER TABLE secrets ADD COLUMN external_user_id TEXT NOT NULL DEFAULT '';
ALTER TABLE secrets ADD COLUMN last_used_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE secrets ADD COLUMN expires_at BIGINT NOT NULL DEFAULT 0;

-- oauth is how a connection is authorized, as JSON; empty: not by OAuth.
ALTER TABLE connections ADD COLUMN oauth TEXT NOT NULL DEFAULT '';
ALTER TABLE connections ADD COLUMN client_secret_id TEXT NOT NULL DEFAULT '';
ALTER TABLE connections ADD COLUMN credentials_per_session TEXT NOT NULL DEFAULT 'off';
CREATE INDEX connections_by_client_secret ON connections (account_id, client_secret_id, id) WHERE client_secret_id <> '';

-- The tokens of a connection that is authorized by OAuth; id is that of the connection.
-- sealed is bound to issuer and resource. lease names who refreshes them until
-- lease_until.
CREATE TABLE connection_tokens (
    id           TEXT   PRIMARY KEY,
    account_id   TEXT   NOT NULL,
    issuer       TEXT   NOT NULL,
    resource     TEXT   NOT NULL,
    sealed       TEXT   NOT NULL,
    version      BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    refreshed_at BIGINT NOT NULL,
    lease        TEXT   NOT NULL,
    lease_until  BIGINT NOT NULL
);
CREATE INDEX connection_tokens_by_refresh ON connection_tokens (refreshed_at, id);

-- Clients that were registered with authorization servers by themselves.
CREATE TABLE oauth_clients (
    id           TEXT   PRIMARY KEY,
    account_id   TEXT   NOT NULL,
    issuer       TEXT   NOT NULL,
    redirect_uri TEXT   NOT NULL,
    sealed       TEXT   NOT NULL,
    version      BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    UNIQUE (account_id, issuer, redirect_uri)
);

-- Authorizations that have begun; id is the hash of the state.
CREATE TABLE oauth_states (
    id            TEXT   PRIMARY KEY,
    account_id    TEXT   NOT NULL,
    connection_id TEXT   NOT NULL,
    sealed        TEXT   NOT NULL,
    expires_at    BIGINT NOT NULL
);
CREATE INDEX oauth_states_by_account ON oauth_states (account_id, expires_at);
CREATE INDEX oauth_states_by_expiry ON oauth_states (expires_at);

-- Secrets that a session, a scheduled task, a script tag or a link has of its own for
-- connections. owner_id is its id.
CREATE TABLE own_credentials (
    account_id    TEXT NOT NULL,
    owner_id      TEXT NOT NULL,
    connection_id TEXT NOT NULL,
    secret_id     TEXT NOT NULL,
    PRIMARY KEY (account_id, owner_id, connection_id)
);
CREATE INDEX own_credentials_by_secret ON own_credentials (account_id, secret_id);

-- +goose Down
DROP TABLE own_credentials;
DROP TABLE oauth_states;
DROP TABLE oauth_clients;
DROP TABLE connection_tokens;
DROP INDEX connections_by_client_secret;
ALTER TABLE connections DROP COLUMN credentials_per_session;
ALTER TABLE connections DROP COLUMN client_secret_id;
ALTER TABLE connections DROP COLUMN oauth;
ALTER TABLE secrets DROP COLUMN expires_at;
ALTER TABLE secrets DROP COLUMN last_used_at;
ALTER TABLE secrets DROP COLUMN external_user_id;
ALTER TABLE secrets DROP COLUMN space_id;
