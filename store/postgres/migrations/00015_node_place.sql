-- +goose Up

-- The name of the place where the node has large outputs; NULL: it is not known.
ALTER TABLE node ADD COLUMN IF NOT EXISTS place text COLLATE "C";
