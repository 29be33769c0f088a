-- +goose Up

-- Which object refers to which blob.
CREATE TABLE IF NOT EXISTS object_blob (
    kind text COLLATE "C" NOT NULL,
    id   text COLLATE "C" NOT NULL,
    hash bytea NOT NULL,
    size bigint NOT NULL,
    PRIMARY KEY (kind, id, hash)
);
CREATE INDEX IF NOT EXISTS object_blob_hash ON object_blob (hash);
