-- +goose Up

-- States of sign-ins with an identity provider that were used, until they expire: each is used once, on any node.
CREATE TABLE sign_in_states (
    state       TEXT   PRIMARY KEY,
    expires_at  BIGINT NOT NULL
);
CREATE INDEX sign_in_states_by_end ON sign_in_states (expires_at);

-- +goose Down
DROP TABLE sign_in_states;
