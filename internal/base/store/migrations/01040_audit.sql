-- +goose Up

-- The audit log: one row for each change, in a chain per account; see package audit. Times never
-- decrease within a chain. before and after are texts, so that the hash is that of the stored bytes.
CREATE TABLE audit (
    account_id  TEXT   NOT NULL,
    seq         BIGINT NOT NULL,
    at          BIGINT NOT NULL,
    actor       TEXT   NOT NULL,
    action      TEXT   NOT NULL,
    object      TEXT   NOT NULL,
    request_id  TEXT   NOT NULL,
    address     TEXT   NOT NULL,
    before      TEXT   NOT NULL,
    after       TEXT   NOT NULL,
    prev        TEXT   NOT NULL,
    hash        TEXT   NOT NULL,
    PRIMARY KEY (account_id, seq)
);
CREATE INDEX audit_objects ON audit (account_id, object, seq);
CREATE INDEX audit_actors ON audit (account_id, actor, seq);
CREATE INDEX audit_actions ON audit (account_id, action, seq);
CREATE INDEX audit_times ON audit (account_id, at, seq);

-- The newest row of each chain, which a writer locks last. purged_seq and purged_hash are of the
-- newest row that was purged, anchored_seq and anchored_at of the newest anchor.
CREATE TABLE audit_heads (
    account_id    TEXT   PRIMARY KEY,
    seq           BIGINT NOT NULL,
    hash          TEXT   NOT NULL,
    at            BIGINT NOT NULL,
    purged_seq    BIGINT NOT NULL DEFAULT 0,
    purged_hash   TEXT   NOT NULL DEFAULT '',
    anchored_seq  BIGINT NOT NULL DEFAULT 0,
    anchored_at   BIGINT NOT NULL DEFAULT 0
);

-- +goose Down
DROP TABLE audit_heads;
DROP TABLE audit;
