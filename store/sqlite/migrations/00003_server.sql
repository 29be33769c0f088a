-- +goose Up
PRAGMA user_version = 3;

-- Where an execution comes from.
ALTER TABLE execution ADD COLUMN workflow TEXT;
ALTER TABLE execution ADD COLUMN workflow_version INTEGER;
ALTER TABLE execution ADD COLUMN job TEXT;
ALTER TABLE execution ADD COLUMN actor TEXT;
ALTER TABLE execution ADD COLUMN concurrency TEXT;
ALTER TABLE execution ADD COLUMN priority INTEGER;
CREATE INDEX execution_workflow ON execution (workflow) WHERE workflow IS NOT NULL;
CREATE INDEX execution_job ON execution (job) WHERE job IS NOT NULL;
CREATE INDEX execution_parent ON execution (parent) WHERE parent IS NOT NULL;
-- What people look for among the many that completed.
CREATE INDEX execution_odd ON execution (no) WHERE status > 4;
-- What retention and the totals look for.
CREATE INDEX execution_ended ON execution (ended, status, started, created) WHERE status >= 4;

-- The steps whose rows a commit wrote though its log may not name them, as runs [[first, count], ...]; '' for none,
-- NULL when that is not known, for all that was written before this column.
ALTER TABLE step_log ADD COLUMN unnamed TEXT;

-- Attempts that were seen running before they ended: their start has been told.
CREATE TABLE seen (
    execution INTEGER NOT NULL,
    idx       INTEGER NOT NULL,
    epoch     INTEGER NOT NULL,
    version   INTEGER NOT NULL,
    PRIMARY KEY (execution, idx, epoch)
) WITHOUT ROWID;
INSERT OR IGNORE INTO seen
SELECT l.execution, coalesce(e.value ->> 'i', 0), coalesce(e.value ->> 'p', 0), l.version
FROM step_log l JOIN json_each(l.body, '$.e') e
WHERE instr(l.body, '{"k":6,') AND e.type = 'object' AND e.value ->> 'k' = 6;

-- Steps that have waited for a signal; whether one still does, its row says.
CREATE TABLE waiting (
    execution INTEGER NOT NULL,
    idx       INTEGER NOT NULL,
    external  TEXT NOT NULL,
    PRIMARY KEY (execution, idx)
) WITHOUT ROWID;

-- Which execution refers to which blob.
CREATE TABLE blob_use (
    execution INTEGER NOT NULL,
    hash      TEXT NOT NULL,
    PRIMARY KEY (execution, hash)
) WITHOUT ROWID;
CREATE INDEX blob_use_hash ON blob_use (hash);
INSERT OR IGNORE INTO blob_use
SELECT execution, substr(output, 9, 64) FROM step WHERE output GLOB '@sha256:*';
INSERT OR IGNORE INTO blob_use
WITH RECURSIVE ref (execution, rest) AS (
    SELECT execution, substr(body, instr(body, '@sha256:') + 8) FROM step_log WHERE instr(body, '@sha256:')
    UNION ALL
    SELECT execution, substr(rest, instr(rest, '@sha256:') + 8) FROM ref WHERE instr(rest, '@sha256:')
)
SELECT execution, substr(rest, 1, 64) FROM ref;

-- Under which key an execution was started.
CREATE TABLE start_key (
    key       TEXT PRIMARY KEY,
    hash      BLOB,
    execution INTEGER NOT NULL,
    created   INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX start_key_execution ON start_key (execution);
CREATE INDEX start_key_created ON start_key (created);

-- What has come from outside. taken is the execution whose commit has used it up.
CREATE TABLE signal (
    key   TEXT NOT NULL,
    id    TEXT NOT NULL,
    body  TEXT,
    at    INTEGER NOT NULL,
    taken INTEGER,
    PRIMARY KEY (key, id)
) WITHOUT ROWID;
CREATE INDEX signal_pending ON signal (at, key, id) WHERE taken IS NULL;
CREATE INDEX signal_at ON signal (at);

-- What is to be delivered.
CREATE TABLE outgoing (
    no        INTEGER PRIMARY KEY AUTOINCREMENT,
    kind      TEXT NOT NULL,
    execution TEXT NOT NULL,
    body      TEXT,
    at        INTEGER NOT NULL
);

-- What people manage.
CREATE TABLE object (
    kind     TEXT NOT NULL,
    id       TEXT NOT NULL,
    name     TEXT,
    revision INTEGER NOT NULL,
    body     TEXT,
    created  INTEGER NOT NULL,
    updated  INTEGER NOT NULL,
    PRIMARY KEY (kind, id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX object_name ON object (kind, name) WHERE name IS NOT NULL;

-- Who changed what.
CREATE TABLE audit (
    no     INTEGER PRIMARY KEY AUTOINCREMENT,
    at     INTEGER NOT NULL,
    actor  TEXT NOT NULL,
    role   TEXT,
    remote TEXT,
    action TEXT NOT NULL,
    object TEXT,
    result TEXT NOT NULL,
    detail TEXT
);
CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_object ON audit (object) WHERE object IS NOT NULL;

-- Executions that are being removed: their rows are gone, what belonged to them may not be. The highest number
-- stays, so that no number is given twice.
CREATE TABLE gone (no INTEGER PRIMARY KEY, done INTEGER NOT NULL DEFAULT 0);
