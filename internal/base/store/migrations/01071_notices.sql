-- +goose Up

-- The windows of budgets whose use has reached a mark, for the notices of an account.
CREATE INDEX budget_windows_notified ON budget_windows (account_id, ends_at) WHERE notified > 0;

-- +goose Down
DROP INDEX budget_windows_notified;
