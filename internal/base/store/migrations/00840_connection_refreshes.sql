-- +goose Up

-- When a node is to refresh the catalog next, in microseconds; 0: at once.
ALTER TABLE connections ADD COLUMN refresh_at BIGINT NOT NULL DEFAULT 0;
CREATE INDEX connections_by_refresh ON connections (refresh_at, id) WHERE checked_at <> 0 AND kind <> 'http';

-- +goose Down
DROP INDEX connections_by_refresh;
ALTER TABLE connections DROP COLUMN refresh_at;
