-- +goose Up
PRAGMA user_version = 12;

-- Which object refers to which blob.
CREATE TABLE object_blob (
    no   INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    id   TEXT NOT NULL,
    hash TEXT NOT NULL,
    size INTEGER NOT NULL,
    UNIQUE (kind, id, hash)
);
CREATE INDEX object_blob_hash ON object_blob (hash);
