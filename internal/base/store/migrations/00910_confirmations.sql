-- Calls of tools that a visitor has to confirm.

-- +goose Up

-- Of a tool whose visitors is confirm: what visitors are told that it does (empty: the
-- title of its definition), and the JSON Pointers of the arguments that they see, as JSON.
ALTER TABLE connection_tools ADD COLUMN visitor_title TEXT NOT NULL DEFAULT '';
ALTER TABLE connection_tools ADD COLUMN public_fields TEXT NOT NULL DEFAULT '';

-- confirmation is what the visitor is shown who has to confirm the call, as JSON; empty:
-- none has to. confirm_input_id is the input with which a visitor was asked last.
-- confirmed is '' before it, approve, reject or expired; confirmed_by is the embed, empty
-- for an expiry.
ALTER TABLE tool_calls ADD COLUMN confirmation TEXT NOT NULL DEFAULT '';
ALTER TABLE tool_calls ADD COLUMN confirm_input_id TEXT NOT NULL DEFAULT '';
ALTER TABLE tool_calls ADD COLUMN confirmed TEXT NOT NULL DEFAULT '';
ALTER TABLE tool_calls ADD COLUMN confirmed_by TEXT NOT NULL DEFAULT '';
ALTER TABLE tool_calls ADD COLUMN confirmed_at BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE tool_calls DROP COLUMN confirmed_at;
ALTER TABLE tool_calls DROP COLUMN confirmed_by;
ALTER TABLE tool_calls DROP COLUMN confirmed;
ALTER TABLE tool_calls DROP COLUMN confirm_input_id;
ALTER TABLE tool_calls DROP COLUMN confirmation;
ALTER TABLE connection_tools DROP COLUMN public_fields;
ALTER TABLE connection_tools DROP COLUMN visitor_title;
