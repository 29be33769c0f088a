-- +goose Up
PRAGMA user_version = 5;

-- Work that steps have going on outside and that is to be stopped, or would have to be if they ended now (held).
CREATE TABLE outside_work (
    execution INTEGER NOT NULL,
    idx       INTEGER NOT NULL,
    epoch     INTEGER NOT NULL,
    attempt   INTEGER NOT NULL,
    key       TEXT NOT NULL,
    action    TEXT NOT NULL,
    state     TEXT,
    since     INTEGER NOT NULL,
    held      INTEGER NOT NULL,
    tries     INTEGER NOT NULL,
    next      INTEGER NOT NULL,
    error     TEXT,
    PRIMARY KEY (execution, idx, epoch)
) WITHOUT ROWID;
