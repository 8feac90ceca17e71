-- +goose Up

-- What was done to calls that could not be made as they were asked for: the bits of
-- stoa.Adjustments. Most calls have no row.
CREATE TABLE charge_adjustments (
    charge_id   TEXT   PRIMARY KEY,
    account_id  TEXT   NOT NULL REFERENCES accounts (id),
    adjustments BIGINT NOT NULL
);

-- +goose Down
DROP TABLE charge_adjustments;
