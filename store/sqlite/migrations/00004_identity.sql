-- +goose Up
PRAGMA user_version = 4;

-- What the database is: one row.
CREATE TABLE identity (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    id     TEXT NOT NULL, -- names the blobs, keys and objects that are its own; a copy keeps it
    home   TEXT,          -- path, without symbolic links, under which it was last opened for running executions
    copied INTEGER        -- µs since 1970: this is a copy made then, which nobody has taken over; NULL: it is none
);
INSERT INTO identity (one, id) VALUES (1, lower(hex(randomblob(16))));
