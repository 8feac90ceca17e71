-- +goose Up

-- The oldest version that a program must know to run on these tables.
CREATE TABLE drive_needs (version BIGINT NOT NULL);
INSERT INTO drive_needs (version) VALUES (4);

-- +goose Down
DROP TABLE drive_needs;
