-- +goose Up

-- What the agents of an account were charged on a day, for the list of agents by credits; as in charge_days, a node adds to
-- its own row. The books do not depend on it.
CREATE TABLE agent_days (
    account_id TEXT   NOT NULL,
    agent_id   TEXT   NOT NULL,
    day        BIGINT NOT NULL,
    node_id    TEXT   NOT NULL,
    amount     BIGINT NOT NULL,
    PRIMARY KEY (account_id, agent_id, day, node_id)
);
CREATE INDEX agent_days_by_day ON agent_days (day);
INSERT INTO agent_days (account_id, agent_id, day, node_id, amount)
    SELECT account_id, agent_id, CAST(created_at / 86400000000 AS BIGINT), node_id, CAST(SUM(amount) AS BIGINT) FROM charges
    WHERE agent_id <> '' GROUP BY account_id, agent_id, CAST(created_at / 86400000000 AS BIGINT), node_id HAVING SUM(amount) > 0;

-- +goose Down
DROP TABLE agent_days;
