-- +goose Up

-- The address to which the link of an invitation is sent; may be empty.
ALTER TABLE invitations ADD COLUMN email TEXT NOT NULL DEFAULT '';

-- Mails with the link of an invitation or a sign-in. sealed is the token of the link, encrypted; empty when
-- the mail was sent or given up, after which the row only counts. account_id is the account of the key that
-- created the link. While a mail is sent, due_at is when it may be claimed again.
CREATE TABLE link_mails (
    id          TEXT   PRIMARY KEY,
    account_id  TEXT   NOT NULL,
    recipient   TEXT   NOT NULL,
    sealed      TEXT   NOT NULL,
    attempts    BIGINT NOT NULL,
    due_at      BIGINT NOT NULL,
    created_at  BIGINT NOT NULL
);
CREATE INDEX link_mails_by_account ON link_mails (account_id, created_at);
CREATE INDEX link_mails_due ON link_mails (due_at) WHERE sealed <> '';
CREATE INDEX link_mails_by_time ON link_mails (created_at);

-- +goose Down
DROP TABLE link_mails;
ALTER TABLE invitations DROP COLUMN email;
