-- +goose Up

-- 1: an operator set the budget for the account, whose members cannot change it.
ALTER TABLE budgets ADD COLUMN by_operator BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE budgets DROP COLUMN by_operator;
