-- +goose Up
PRAGMA user_version = 9;

-- How far projects are. done and errors are what executions and callers have counted here; other_done and other_errors are the
-- counts of other programs on a state server. rev counts changes of status and total, epoch counts resets. event is the id of the
-- event of the finish. completed is NULL until then.
CREATE TABLE progress (
    project      TEXT PRIMARY KEY,
    status       TEXT NOT NULL,
    total        INTEGER NOT NULL,
    done         INTEGER NOT NULL,
    errors       INTEGER NOT NULL,
    other_done   INTEGER NOT NULL,
    other_errors INTEGER NOT NULL,
    rev          INTEGER NOT NULL,
    epoch        INTEGER NOT NULL,
    event        TEXT NOT NULL,
    touched      INTEGER NOT NULL,
    completed    INTEGER
) WITHOUT ROWID;
CREATE INDEX progress_open ON progress (project) WHERE completed IS NULL;

-- Keys of items that have been counted.
CREATE TABLE progress_item (
    project TEXT NOT NULL,
    key     TEXT NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (project, key)
) WITHOUT ROWID;
CREATE INDEX progress_item_at ON progress_item (at);
