-- +goose Up

-- The latest sign-in of the member whose key it is. Earlier sign-ins are known from sessions that have not ended.
ALTER TABLE keys ADD COLUMN signed_in_at BIGINT NOT NULL DEFAULT 0;
UPDATE keys SET signed_in_at = COALESCE((SELECT MAX(s.created_at) FROM console_sessions s WHERE s.person_id = keys.member_id), created_at) WHERE member_id <> '';
CREATE INDEX keys_by_sign_in ON keys (signed_in_at, id) WHERE member_id <> '' AND kind = '';
CREATE INDEX keys_by_member ON keys (member_id) WHERE member_id <> '';

-- +goose Down
DROP INDEX keys_by_member;
DROP INDEX keys_by_sign_in;
ALTER TABLE keys DROP COLUMN signed_in_at;
