-- +goose Up

-- charge_days also has a row for each agent, with its id as account_id: for the list of agents by credits, and without another
-- statement for a charge.
INSERT INTO charge_days (account_id, day, node_id, amount)
    SELECT agent_id, CAST(created_at / 86400000000 AS BIGINT), node_id, CAST(SUM(amount) AS BIGINT) FROM charges
    WHERE agent_id <> '' GROUP BY agent_id, CAST(created_at / 86400000000 AS BIGINT), node_id HAVING SUM(amount) > 0;

-- +goose Down
DELETE FROM charge_days WHERE account_id NOT IN (SELECT id FROM accounts);
