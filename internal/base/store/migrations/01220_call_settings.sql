-- +goose Up

-- Settings of an agent's model calls, as JSON; empty means none.
ALTER TABLE agents ADD COLUMN call_settings TEXT NOT NULL DEFAULT '';
ALTER TABLE agent_versions ADD COLUMN call_settings TEXT NOT NULL DEFAULT '';

-- The JSON Schema of a session's answers; 'agent' means that of its agent's version or draft, empty means free text.
ALTER TABLE sessions ADD COLUMN reply_schema TEXT NOT NULL DEFAULT '';

-- Why the answer of a step does not fit the reply schema; empty if it does, and for steps that are no answers.
ALTER TABLE steps ADD COLUMN problem TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE steps DROP COLUMN problem;
ALTER TABLE sessions DROP COLUMN reply_schema;
ALTER TABLE agent_versions DROP COLUMN call_settings;
ALTER TABLE agents DROP COLUMN call_settings;
