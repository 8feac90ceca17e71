-- +goose Up

-- Whether an agent queries tables with SQL.
ALTER TABLE agents ADD COLUMN tables BIGINT NOT NULL DEFAULT 0 CHECK (tables IN (0, 1));
ALTER TABLE agent_versions ADD COLUMN tables BIGINT NOT NULL DEFAULT 0 CHECK (tables IN (0, 1));

-- +goose Down
ALTER TABLE agent_versions DROP COLUMN tables;
ALTER TABLE agents DROP COLUMN tables;
