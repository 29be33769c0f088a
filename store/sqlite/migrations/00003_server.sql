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

DROP VIEW pipeline_step_log;
DROP VIEW step_event;
DROP VIEW step_report;
DROP VIEW pipeline_steps;

CREATE VIEW pipeline_steps AS
SELECT s.execution_id || ':' || s.idx AS id,
    s.execution_id,
    coalesce(s.name, CASE
        WHEN s.definition IS NOT NULL THEN s.key
        WHEN instr(s.key, ':') THEN substr(s.key, 1, instr(s.key, ':') - 1)
        WHEN s.key LIKE '%]' THEN rtrim(rtrim(s.key, ']0123456789'), '[')
        ELSE substr(s.key, length(rtrim(s.key, replace(s.key, '.', ''))) + 1)
    END) AS step_name,
    s.key AS step_key,
    CASE s.status WHEN 0 THEN 'pending' WHEN 1 THEN 'queued' WHEN 2 THEN 'running' WHEN 3 THEN 'retrying' WHEN 4 THEN 'waiting'
        WHEN 5 THEN 'completed' WHEN 6 THEN 'failed' WHEN 7 THEN 'skipped' WHEN 8 THEN 'cancelled' WHEN 9 THEN 'timed_out' END AS status,
    coalesce(b.depends_on, s.definition -> 'depends_on', '[]') AS depends_on,
    coalesce(s.definition -> 'params', iif(s.definition IS NULL, s.input, NULL), '{}') AS params,
    s.input AS input_data,
    -- what is kept beside the database is named
    iif(substr(s.output, 1, 1) = '@', json_object('blob', s.output), s.output) AS output_data,
    s.worker AS worker_id,
    s.failure ->> 'message' AS error_message,
    s.attempt,
    strftime('%Y-%m-%dT%H:%M:%S', coalesce(b.created, x.created) / 1000000, 'unixepoch') || printf('.%06dZ', coalesce(b.created, x.created) % 1000000) AS created_at,
    strftime('%Y-%m-%dT%H:%M:%S', s.queued / 1000000, 'unixepoch') || printf('.%06dZ', s.queued % 1000000) AS queued_at,
    strftime('%Y-%m-%dT%H:%M:%S', s.started / 1000000, 'unixepoch') || printf('.%06dZ', s.started % 1000000) AS started_at,
    strftime('%Y-%m-%dT%H:%M:%S', s.ended / 1000000, 'unixepoch') || printf('.%06dZ', s.ended % 1000000) AS completed_at,
    strftime('%Y-%m-%dT%H:%M:%S', s.wake / 1000000, 'unixepoch') || printf('.%06dZ', s.wake % 1000000) AS wake_at,
    r.rare ->> 'x' AS waits_for,
    coalesce(r.rare ->> 'c', 0) AS cost_micros
FROM step_state s
    JOIN execution x ON x.no = s.execution
    LEFT JOIN step r ON r.execution = s.execution AND r.idx = s.idx
    LEFT JOIN spawned b ON b.execution = s.execution AND b.idx = s.idx;

-- Every event of the log in one form. at and started are absolute.
CREATE VIEW step_report AS
SELECT x.no AS execution, x.id AS execution_id, l.version, e.key AS position,
    iif(e.type = 'array', 2, e.value ->> 'k') AS kind,
    iif(e.type = 'array', e.value ->> 1, coalesce(e.value ->> 'i', 0)) AS idx,
    iif(e.type = 'array', e.value ->> 2, coalesce(e.value ->> 'p', 0)) AS epoch,
    (l.body ->> '$.t') + iif(e.type = 'array', e.value ->> 3, e.value ->> 'd') AS at,
    (l.body ->> '$.t') + iif(e.type = 'array', (e.value ->> 3) + (e.value ->> 4), (e.value ->> 'd') + (e.value ->> 's')) AS started,
    iif(e.type = 'array', NULL, e.value ->> 'w') AS worker,
    iif(e.type = 'array', NULL, CASE e.value ->> 'k'
        WHEN 3 THEN e.value ->> '$.f.message'
        WHEN 7 THEN (SELECT group_concat(s.value ->> 'key', ', ') FROM json_each(e.value, '$.spawn') s)
        WHEN 14 THEN e.value ->> 'step'
        WHEN 17 THEN coalesce(e.value ->> '$.f.message', e.value ->> 'reason')
        ELSE e.value ->> 'reason'
    END) AS detail
FROM execution x
    JOIN step_log l ON l.execution = x.no
    JOIN json_each(l.body, '$.e') e;

-- Everything that happened. The keys of steps come in as rows of their own and reach the others by a
-- window over the step.
CREATE VIEW step_event AS
SELECT x.no AS execution, x.id AS execution_id, e.value ->> 0 AS version, e.value ->> 1 AS type, e.value ->> 2 AS idx,
    e.value ->> 3 AS key, e.value ->> 4 AS at, e.value ->> 5 AS worker, e.value ->> 6 AS attempt, e.value ->> 7 AS detail
FROM execution x
    JOIN json_each((
        SELECT json_group_array(json_array(version, type, idx, key, at, worker, attempt, detail))
        FROM (
            SELECT version, type, idx, at, worker, attempt, detail,
                max(name) OVER (PARTITION BY idx) AS key,
                row_number() OVER (PARTITION BY idx, epoch, type ORDER BY version, position) AS nth
            FROM (
                SELECT NULL AS version, NULL AS type, s.key AS idx, NULL AS epoch, NULL AS at, NULL AS worker, NULL AS attempt,
                    NULL AS detail, NULL AS position, s.value ->> 'id' AS name
                FROM definition d JOIN json_each(d.body, '$.steps') s
                WHERE d.hash = x.definition
                UNION ALL
                SELECT NULL, NULL, r.idx, NULL, NULL, NULL, NULL, NULL, NULL, r.rare ->> 'k'
                FROM step r
                WHERE r.execution = x.no AND r.rare IS NOT NULL
                UNION ALL
                -- what the log says; a step's end is told by its row, if that is still the row of this end
                SELECT p.version, CASE p.kind WHEN 1 THEN 'start' WHEN 2 THEN 'completed' WHEN 3 THEN 'failed' WHEN 4 THEN 'skipped'
                        WHEN 5 THEN 'waiting' WHEN 7 THEN 'spawned' WHEN 8 THEN 'timer' WHEN 9 THEN 'recovered' WHEN 10 THEN 'lost'
                        WHEN 11 THEN 'cancel' WHEN 12 THEN 'pause' WHEN 13 THEN 'resume' WHEN 14 THEN 'restart'
                        WHEN 16 THEN 'admitted' WHEN 17 THEN 'settled' END,
                    iif(p.kind IN (1, 9, 11, 12, 13, 14, 16) OR p.idx < 0, NULL, p.idx), p.epoch, p.at, p.worker,
                    iif(r.version = p.version, r.attempt, p.epoch), p.detail, NULL, NULL
                FROM step_report p LEFT JOIN step r ON r.execution = p.execution AND r.idx = p.idx
                WHERE p.execution = x.no AND p.kind <> 6 AND NOT (p.kind IN (2, 3, 4, 17) AND r.version IS p.version AND r.status >= 5)
                UNION ALL
                -- a start is told with the end of the attempt, or before if that takes long
                SELECT p.version, 'started', p.idx, p.epoch, p.started, coalesce(p.worker, iif(r.version = p.version, r.worker, NULL)),
                    iif(r.version = p.version, r.attempt, p.epoch), NULL, p.position, NULL
                FROM step_report p LEFT JOIN step r ON r.execution = p.execution AND r.idx = p.idx
                WHERE p.execution = x.no AND p.kind IN (2, 3, 4, 5, 6) AND p.started > 0
                UNION ALL
                SELECT q.version, 'queued', q.idx, q.version, q.at, NULL, NULL, NULL, NULL, NULL
                FROM step_queued q
                WHERE q.execution = x.no
                UNION ALL
                SELECT r.version, CASE r.status WHEN 5 THEN 'completed' WHEN 6 THEN 'failed' WHEN 7 THEN 'skipped' WHEN 8 THEN 'cancelled'
                        WHEN 9 THEN 'timed_out' END,
                    r.idx, r.version, r.ended, r.worker, r.attempt, r.rare ->> '$.f.message', NULL, NULL
                FROM step r
                WHERE r.execution = x.no AND r.status >= 5
            )
        )
        WHERE type IS NOT NULL AND (type <> 'started' OR nth = 1)
    )) e;

CREATE VIEW pipeline_step_log AS
SELECT execution_id,
    iif(idx IS NULL, NULL, coalesce(key, '#' || idx)) AS step_key,
    type AS event_type,
    worker AS worker_id,
    attempt,
    detail AS details,
    strftime('%Y-%m-%dT%H:%M:%S', at / 1000000, 'unixepoch') || printf('.%06dZ', at % 1000000) AS created_at,
    version
FROM step_event;
