-- The views, for everybody who speaks SQL. ${…} stands for what Go knows, the kinds of events above all (views.go).

DROP VIEW IF EXISTS pipeline_step_log;
DROP VIEW IF EXISTS step_event;
DROP VIEW IF EXISTS step_report;
DROP VIEW IF EXISTS pipeline_steps;
DROP VIEW IF EXISTS step_state;
DROP VIEW IF EXISTS step_queued;

-- Each view begins with the execution and takes the rest from json_each over one correlated
-- subquery, because SQLite does not carry a condition into a grouped subquery: so a constant
-- execution_id (or execution) makes each linear in the steps of that execution.

-- Which steps were queued, by which commit: the runs [first, count] in the log, expanded.
CREATE VIEW step_queued AS
SELECT x.no AS execution, x.id AS execution_id,
    e.value ->> 0 AS idx, e.value ->> 1 AS version, e.value ->> 2 AS at
FROM execution x
    JOIN json_each((
        WITH RECURSIVE run (idx, more, version, at) AS (
            SELECT q.value ->> 0, (q.value ->> 1) - 1, l.version, l.body ->> '$.t'
            FROM step_log l JOIN json_each(l.body, '$.q') q
            WHERE l.execution = x.no
            UNION ALL
            SELECT idx + 1, more - 1, version, at FROM run WHERE more > 0
        )
        SELECT json_group_array(json_array(idx, version, at)) FROM run
    )) e;

-- Every step with its state. One without a row is pending, or queued when the log says so; a row
-- that has not ended is older than a later queueing. A step inside a group or for_each that is
-- queued for the first time has no name yet and shows as #index.
CREATE VIEW step_state AS
SELECT p.execution, p.execution_id, p.idx,
    coalesce(r.rare ->> 'k', p.definition ->> 'id', '#' || p.idx) AS key,
    p.definition ->> 'name' AS name,
    coalesce(r.rare ->> 'a', p.definition ->> 'action') AS action,
    p.definition,
    CASE
        WHEN r.status >= 5 THEN r.status
        WHEN p.queued_version >= coalesce(r.version, 0) THEN 1
        ELSE coalesce(r.status, 0)
    END AS status,
    coalesce(r.attempt, 0) AS attempt,
    coalesce(r.version, p.queued_version) AS version,
    r.seq, r.worker, r.output,
    r.rare ->> 'i' AS input,
    r.rare -> 'f' AS failure,
    r.rare ->> 'w' AS wake,
    CASE
        WHEN r.status >= 5 THEN r.queued
        WHEN p.queued_version >= coalesce(r.version, 0) THEN p.queued_at
        ELSE r.queued
    END AS queued,
    r.started, r.ended
FROM (
        SELECT x.no AS execution, x.id AS execution_id, e.value ->> 0 AS idx, e.value ->> 1 AS definition,
            e.value ->> 2 AS queued_version, e.value ->> 3 AS queued_at
        FROM execution x
            JOIN json_each((
                SELECT json_group_array(json_array(idx, definition, queued_version, queued_at))
                FROM (
                    SELECT idx, max(definition) AS definition, max(version) AS queued_version, max(at) AS queued_at
                    FROM (
                        SELECT s.key AS idx, s.value AS definition, NULL AS version, NULL AS at
                        FROM definition d JOIN json_each(d.body, '$.steps') s
                        WHERE d.hash = x.definition
                        UNION ALL
                        SELECT s.idx, NULL, NULL, NULL FROM step s WHERE s.execution = x.no AND s.rare IS NOT NULL
                        UNION ALL
                        SELECT q.idx, NULL, q.version, q.at
                        FROM step_queued q
                        WHERE q.execution = x.no AND x.status < 4
                    )
                    GROUP BY idx
                )
            )) e
    ) p
    LEFT JOIN step r ON r.execution = p.execution AND r.idx = p.idx
WHERE r.rare ->> 'o' IS NULL;

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
    CASE s.status ${statuses} END AS status,
    coalesce(b.depends_on, s.definition -> 'depends_on', '[]') AS depends_on,
    coalesce(s.definition -> 'params', iif(s.definition IS NULL, s.input, NULL), '{}') AS params,
    s.input AS input_data,
    -- what is kept beside the database is named
    iif(substr(s.output, 1, 1) = '@', json_object('blob', s.output), s.output) AS output_data,
    s.worker AS worker_id,
    s.failure ->> 'message' AS error_message,
    s.attempt,
    ${time coalesce(b.created, x.created)} AS created_at,
    ${time s.queued} AS queued_at,
    ${time s.started} AS started_at,
    ${time s.ended} AS completed_at,
    ${time s.wake} AS wake_at,
    r.rare ->> 'x' AS waits_for,
    coalesce(r.rare ->> 'c', 0) AS cost_micros
FROM step_state s
    JOIN execution x ON x.no = s.execution
    LEFT JOIN step r ON r.execution = s.execution AND r.idx = s.idx
    LEFT JOIN spawned b ON b.execution = s.execution AND b.idx = s.idx;

-- Every event of the log in one form. at and started are absolute.
CREATE VIEW step_report AS
SELECT x.no AS execution, x.id AS execution_id, l.version, e.key AS position,
    iif(e.type = 'array', ${done}, e.value ->> 'k') AS kind,
    iif(e.type = 'array', e.value ->> 1, coalesce(e.value ->> 'i', 0)) AS idx,
    iif(e.type = 'array', e.value ->> 2, coalesce(e.value ->> 'p', 0)) AS epoch,
    (l.body ->> '$.t') + iif(e.type = 'array', e.value ->> 3, e.value ->> 'd') AS at,
    (l.body ->> '$.t') + iif(e.type = 'array', (e.value ->> 3) + (e.value ->> 4), (e.value ->> 'd') + (e.value ->> 's')) AS started,
    iif(e.type = 'array', NULL, e.value ->> 'w') AS worker,
    iif(e.type = 'array', NULL, coalesce(e.value ->> '$.f.message', e.value ->> 'step',
        (SELECT group_concat(s.value ->> 'key', ', ') FROM json_each(e.value, '$.spawn') s), e.value ->> 'reason')) AS detail
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
                SELECT p.version, CASE p.kind ${types} END,
                    iif(p.kind IN (${of_execution}) OR p.idx < 0, NULL, p.idx), p.epoch, p.at, p.worker,
                    iif(r.version = p.version, r.attempt, p.epoch), p.detail, NULL, NULL
                FROM step_report p LEFT JOIN step r ON r.execution = p.execution AND r.idx = p.idx
                WHERE p.execution = x.no AND NOT (p.kind IN (${ends_step}) AND r.version IS p.version AND r.status >= 5)
                UNION ALL
                -- a start is told with the end of the attempt, or before if that takes long
                SELECT p.version, 'started', p.idx, p.epoch, p.started, coalesce(p.worker, iif(r.version = p.version, r.worker, NULL)),
                    iif(r.version = p.version, r.attempt, p.epoch), NULL, p.position, NULL
                FROM step_report p LEFT JOIN step r ON r.execution = p.execution AND r.idx = p.idx
                WHERE p.execution = x.no AND p.kind IN (${of_attempt}) AND p.started > 0
                UNION ALL
                SELECT q.version, 'queued', q.idx, q.version, q.at, NULL, NULL, NULL, NULL, NULL
                FROM step_queued q
                WHERE q.execution = x.no
                UNION ALL
                SELECT r.version, CASE r.status ${statuses} END,
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
    ${time at} AS created_at,
    version
FROM step_event;
