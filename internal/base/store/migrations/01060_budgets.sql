-- +goose Up

-- Budgets of accounts; see package billing.
CREATE TABLE budgets (
    id            TEXT   PRIMARY KEY,
    account_id    TEXT   NOT NULL REFERENCES accounts (id),
    scope         TEXT   NOT NULL,
    subject       TEXT   NOT NULL,
    period        TEXT   NOT NULL,
    time_zone     TEXT   NOT NULL,
    limit_micro   BIGINT NOT NULL,
    at_cap        TEXT   NOT NULL,
    notify_at     TEXT   NOT NULL,
    effective_at  BIGINT NOT NULL,
    revision      BIGINT NOT NULL,
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    UNIQUE (account_id, scope, period, subject)
);
CREATE INDEX budgets_of_account ON budgets (account_id, created_at, id);

-- The number of changes of budgets, in one row: nodes poll it to find new budgets.
CREATE TABLE budget_changes (
    id  BIGINT PRIMARY KEY,
    n   BIGINT NOT NULL
);

-- The periods of budgets for their subjects. An empty budget_id is the daily limit of a key, whose
-- subject is the root of its family. opening was spent in the period before the row was created;
-- spent is the sum of the charges that name it. notified is the highest mark, in percent, that was
-- announced. ends_at 0 means never.
CREATE TABLE budget_windows (
    id            TEXT   PRIMARY KEY,
    account_id    TEXT   NOT NULL,
    budget_id     TEXT   NOT NULL,
    subject       TEXT   NOT NULL,
    starts_at     BIGINT NOT NULL,
    ends_at       BIGINT NOT NULL,
    opening       BIGINT NOT NULL,
    spent         BIGINT NOT NULL DEFAULT 0,
    notified      BIGINT NOT NULL DEFAULT 0,
    created_at    BIGINT NOT NULL,
    UNIQUE (account_id, budget_id, subject, starts_at)
);
CREATE INDEX budget_windows_of_budget ON budget_windows (account_id, budget_id, created_at, id);
CREATE INDEX budget_windows_by_end ON budget_windows (account_id, ends_at);
CREATE INDEX budget_windows_ended ON budget_windows (ends_at) WHERE ends_at > 0;

-- The credits of windows that calls in progress have reserved, where several nodes share the
-- database.
CREATE TABLE budget_holds (
    window_id  TEXT   NOT NULL,
    hold_id    TEXT   NOT NULL,
    node_id    TEXT   NOT NULL,
    amount     BIGINT NOT NULL,
    PRIMARY KEY (window_id, hold_id)
);
CREATE INDEX budget_holds_by_hold ON budget_holds (hold_id);
CREATE INDEX budget_holds_by_node ON budget_holds (node_id);

-- The subjects of a charge, and the ids of the windows that counted it, with spaces between.
ALTER TABLE charges ADD COLUMN member_id TEXT NOT NULL DEFAULT '';
ALTER TABLE charges ADD COLUMN embed_id TEXT NOT NULL DEFAULT '';
ALTER TABLE charges ADD COLUMN root_id TEXT NOT NULL DEFAULT '';
ALTER TABLE charges ADD COLUMN windows TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE charges DROP COLUMN windows;
ALTER TABLE charges DROP COLUMN root_id;
ALTER TABLE charges DROP COLUMN embed_id;
ALTER TABLE charges DROP COLUMN member_id;
DROP TABLE budget_holds;
DROP TABLE budget_windows;
DROP TABLE budget_changes;
DROP TABLE budgets;
