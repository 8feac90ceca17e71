-- +goose Up

-- Definitions of tools as the prompts of sessions begin with them, as JSON, one row for all sessions of an agent with the same ones.
CREATE TABLE tool_lists (
    agent_id   TEXT   NOT NULL,
    sha256     TEXT   NOT NULL,
    account_id TEXT   NOT NULL,
    tools      TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (agent_id, sha256)
);
CREATE INDEX tool_lists_of_agent ON tool_lists (account_id, agent_id, created_at, sha256);

-- tool_list is the sha256 of the definitions with which the prompts of a session begin, tool_view what its model was told about them since,
-- as JSON; see agent.toolView.
ALTER TABLE sessions ADD COLUMN tool_list TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN tool_view TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE sessions DROP COLUMN tool_view;
ALTER TABLE sessions DROP COLUMN tool_list;
DROP TABLE tool_lists;
