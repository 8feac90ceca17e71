-- +goose Up

-- Several nodes on one database. A lease is asked for while another node wants of
-- it what no hold covers. The counts of a node are what it has counted in memory
-- against limits that all nodes share, as JSON; only the latest matter.
ALTER TABLE leases ADD COLUMN asked BIGINT NOT NULL DEFAULT 0 CHECK (asked IN (0, 1));
CREATE INDEX leases_asked ON leases (node_id) WHERE asked = 1;
CREATE TABLE node_counts (
    node_id    TEXT   PRIMARY KEY,
    counts     TEXT   NOT NULL,
    updated_at BIGINT NOT NULL
);
-- A program that does not know this closes the leases of other nodes.
UPDATE core_needs SET version = 640;

-- +goose Down
UPDATE core_needs SET version = 600;
DROP TABLE node_counts;
DROP INDEX leases_asked;
ALTER TABLE leases DROP COLUMN asked;
