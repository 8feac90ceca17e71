-- +goose Up

-- The words of the index, to look up which ones begin with some letters.
CREATE VIRTUAL TABLE drive_vocabulary USING fts5vocab ('drive_index', 'row');
