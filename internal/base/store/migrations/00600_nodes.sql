-- Several nodes on one PostgreSQL database. On SQLite there is one.
--
-- One text for SQLite and PostgreSQL; see 0001 for how values are kept.

-- +goose Up

-- When the node last said that it lives, by the clock of the database, and what it
-- says of itself: calls are the model calls under way.
ALTER TABLE nodes ADD COLUMN seen_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN version TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN config_hash TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN address TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN calls BIGINT NOT NULL DEFAULT 0;
-- With this index a change of alive is a change of a key on PostgreSQL: it waits for
-- the transactions that hold the row FOR KEY SHARE, which a change of seen_at does
-- not.
CREATE UNIQUE INDEX nodes_alive ON nodes (id, alive);

-- A runner is alive while its node is and it has a row; expires_at is not used any
-- more. Those of earlier versions are gone.
DELETE FROM runners;
ALTER TABLE runners ADD COLUMN node_id TEXT NOT NULL DEFAULT '';

-- The oldest version that a program must know to run on these tables.
CREATE TABLE core_needs (version BIGINT NOT NULL);
INSERT INTO core_needs (version) VALUES (600);

-- +goose Down
DROP TABLE core_needs;
ALTER TABLE runners DROP COLUMN node_id;
DROP INDEX nodes_alive;
ALTER TABLE nodes DROP COLUMN calls;
ALTER TABLE nodes DROP COLUMN address;
ALTER TABLE nodes DROP COLUMN config_hash;
ALTER TABLE nodes DROP COLUMN version;
ALTER TABLE nodes DROP COLUMN seen_at;
