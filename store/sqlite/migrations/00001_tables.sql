-- +goose Up
PRAGMA application_id = 1400139895; -- "Stpw"
PRAGMA user_version = 1;

-- Times are µs since 1970. Statuses are the numbers of package stepwell. Values are JSON as text.

-- A definition is a snapshot that executions run, by the hash of its canonical JSON.
CREATE TABLE definition (
    hash BLOB PRIMARY KEY,
    body TEXT NOT NULL
);

-- An execution is written at its start and at its changes of status.
CREATE TABLE execution (
    no         INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    pipeline   TEXT NOT NULL,
    status     INTEGER NOT NULL,
    definition BLOB NOT NULL,
    parent     TEXT,
    caused_by  TEXT NOT NULL,
    dir        TEXT NOT NULL,
    created    INTEGER NOT NULL,
    started    INTEGER,
    ended      INTEGER,
    failure    TEXT,
    progress   TEXT,
    params     TEXT,
    outputs    TEXT
);
-- What recovery looks for; terminal executions, nearly all, are not in it.
CREATE INDEX execution_open ON execution (no) WHERE status < 4;

-- A step has a row once it has ended, waits, was spawned, or has been running for a while. version is
-- the commit that wrote it. rare holds what few rows have: k key, a action, i input, f failure, w wake, o 1 when
-- its key belongs to a newer instance.
CREATE TABLE step (
    execution INTEGER NOT NULL,
    idx       INTEGER NOT NULL,
    version   INTEGER NOT NULL,
    status    INTEGER NOT NULL,
    attempt   INTEGER NOT NULL,
    seq       INTEGER,
    queued    INTEGER,
    started   INTEGER,
    ended     INTEGER,
    worker    TEXT,
    output    TEXT,
    rare      TEXT,
    PRIMARY KEY (execution, idx)
) WITHOUT ROWID;

-- What a step added while the execution runs depends on; other steps have it in the definition.
CREATE TABLE spawned (
    execution  INTEGER NOT NULL,
    idx        INTEGER NOT NULL,
    depends_on TEXT NOT NULL,
    created    INTEGER NOT NULL,
    PRIMARY KEY (execution, idx)
) WITHOUT ROWID;

-- One row per execution and commit. Its key fences every write.
CREATE TABLE step_log (
    execution INTEGER NOT NULL,
    version   INTEGER NOT NULL,
    body      TEXT NOT NULL,
    PRIMARY KEY (execution, version)
) WITHOUT ROWID;

-- Lines that steps log.
CREATE TABLE log_line (
    seq       INTEGER PRIMARY KEY AUTOINCREMENT,
    execution INTEGER NOT NULL,
    step      INTEGER NOT NULL,
    step_key  TEXT NOT NULL,
    attempt   INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    level     INTEGER NOT NULL,
    message   TEXT NOT NULL,
    attrs     TEXT
);
CREATE INDEX log_line_execution ON log_line (execution);

-- Values that steps recorded for their later attempts.
CREATE TABLE memo (
    execution INTEGER NOT NULL,
    step      INTEGER NOT NULL,
    key       TEXT NOT NULL,
    value     TEXT NOT NULL,
    PRIMARY KEY (execution, step, key)
) WITHOUT ROWID;

-- What other processes ask of the one that runs executions.
CREATE TABLE request (
    no        INTEGER PRIMARY KEY AUTOINCREMENT,
    execution TEXT NOT NULL,
    kind      TEXT NOT NULL,
    body      TEXT
);
