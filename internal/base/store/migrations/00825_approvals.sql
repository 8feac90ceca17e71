-- Calls of tools that a person has to approve.

-- +goose Up

-- approval is '' or never: no person is asked; always: one is. approval_input_id is the
-- input with which somebody was asked last. decision is '' before it, approve, reject,
-- expired or remembered; decided_by is the key that decided, empty for an expiry.
-- previous_outcome is 'unknown' where the call may have been carried out once already.
-- title is the tool's, for people.
ALTER TABLE tool_calls ADD COLUMN approval TEXT NOT NULL DEFAULT '';
ALTER TABLE tool_calls ADD COLUMN approval_input_id TEXT NOT NULL DEFAULT '';
ALTER TABLE tool_calls ADD COLUMN previous_outcome TEXT NOT NULL DEFAULT '';
ALTER TABLE tool_calls ADD COLUMN title TEXT NOT NULL DEFAULT '';

-- A tool whose calls nobody is asked about in a session any more, while its definition
-- is the same.
CREATE TABLE session_rules (
    account_id TEXT   NOT NULL,
    session_id TEXT   NOT NULL,
    tool       TEXT   NOT NULL,
    sha256     TEXT   NOT NULL,
    made_by    TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (session_id, tool, sha256)
);

-- Inputs for those who approve, and those for programs and people together.
CREATE INDEX inputs_approvals ON inputs (account_id, created_at, id) WHERE status = 'pending' AND kind = 'tool_approval';
CREATE INDEX inputs_of_tools ON inputs (account_id, created_at, id) WHERE status = 'pending' AND kind IN ('tool_call', 'tool_approval');

-- +goose Down
DROP INDEX inputs_of_tools;
DROP INDEX inputs_approvals;
DROP TABLE session_rules;
ALTER TABLE tool_calls DROP COLUMN title;
ALTER TABLE tool_calls DROP COLUMN previous_outcome;
ALTER TABLE tool_calls DROP COLUMN approval_input_id;
ALTER TABLE tool_calls DROP COLUMN approval;
