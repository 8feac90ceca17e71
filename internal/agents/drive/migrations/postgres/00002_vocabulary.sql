-- +goose Up

-- SQLite has a table of the words here; PostgreSQL looks up prefixes itself.
SELECT 1;
