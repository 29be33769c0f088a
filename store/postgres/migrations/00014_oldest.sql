-- +goose Up

-- The oldest version whose programs work on the database.
ALTER TABLE identity ADD COLUMN IF NOT EXISTS oldest int NOT NULL DEFAULT 0;
