-- +goose Up

-- The databases that have been taken over, or are being: how far (import.go).
CREATE TABLE import (
    source text PRIMARY KEY, -- id of the other database
    state  bytea NOT NULL,
    ended  boolean NOT NULL
);
