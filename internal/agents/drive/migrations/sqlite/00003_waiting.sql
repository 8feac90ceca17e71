-- +goose Up

-- Content without a reference, by drive: how much of it waits for the sweep.
CREATE INDEX drive_blobs_waiting ON drive_blobs (drive_id, freed_at, size) WHERE refs = 0;
