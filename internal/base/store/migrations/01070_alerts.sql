-- +goose Up

-- service 1: a webhook of the operator's account that receives the alerts of the service instead
-- of the events of the account.
ALTER TABLE webhooks ADD COLUMN service BIGINT NOT NULL DEFAULT 0;
CREATE INDEX webhooks_failing ON webhooks (account_id, id) WHERE failing_since > 0;

-- The open alerts of the service: one row for each incident, whichever nodes see it. data is that of
-- the event, as JSON. seen_at is when a node last saw the cause, announced_at when the event was
-- sent to webhooks; 0: not yet.
CREATE TABLE alerts (
    kind          TEXT   NOT NULL,
    subject       TEXT   NOT NULL,
    data          TEXT   NOT NULL,
    opened_at     BIGINT NOT NULL,
    seen_at       BIGINT NOT NULL,
    announced_at  BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (kind, subject)
);

-- +goose Down
DROP TABLE alerts;
DROP INDEX webhooks_failing;
ALTER TABLE webhooks DROP COLUMN service;
