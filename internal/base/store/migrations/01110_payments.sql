-- +goose Up

-- Purchases of packs of credits. amount and refunded are in the smallest unit of the currency. withdrawn is the
-- part of the credits that was withdrawn after refunds and disputes. revision counts the readings at the
-- processor that were booked, hints the notifications; due_at is when the payment is read again (0: never), and
-- until claimed_until only one node reads it. No foreign key, which would lock the account before the lease.
CREATE TABLE payments (
    id              TEXT   PRIMARY KEY,
    account_id      TEXT   NOT NULL,
    made_by         TEXT   NOT NULL,
    pack            TEXT   NOT NULL,
    name            TEXT   NOT NULL,
    amount          BIGINT NOT NULL CHECK (amount > 0),
    currency        TEXT   NOT NULL,
    credits         BIGINT NOT NULL CHECK (credits > 0),
    live            BIGINT NOT NULL,
    state           TEXT   NOT NULL,
    checkout_id     TEXT   UNIQUE,
    checkout_url    TEXT   NOT NULL,
    payment_intent  TEXT   NOT NULL,
    refunded        BIGINT NOT NULL,
    disputed        BIGINT NOT NULL,
    withdrawn       BIGINT NOT NULL CHECK (withdrawn >= 0 AND withdrawn <= credits),
    created_at      BIGINT NOT NULL,
    paid_at         BIGINT NOT NULL,
    revision        BIGINT NOT NULL,
    hints           BIGINT NOT NULL,
    due_at          BIGINT NOT NULL,
    claimed_until   BIGINT NOT NULL
);
CREATE INDEX payments_by_account ON payments (account_id, created_at, id);
CREATE INDEX payments_by_intent ON payments (payment_intent) WHERE payment_intent <> '';
CREATE INDEX payments_due ON payments (due_at) WHERE due_at > 0;

-- +goose Down
DROP TABLE payments;
