-- The views, for everybody who speaks SQL: as those of store/sqlite. ${…} stands for what Go knows, the kinds of events above all
-- (views.go). A text with bytes that PostgreSQL refuses is stored escaped, with \x01 before it; it shows as it is stored.

DROP VIEW IF EXISTS pipeline_step_log;
DROP VIEW IF EXISTS step_event;
DROP VIEW IF EXISTS step_report;
DROP VIEW IF EXISTS pipeline_steps;
DROP VIEW IF EXISTS step_state;
DROP VIEW IF EXISTS step_queued;

-- Each view begins with the execution and takes the rest from subqueries that depend on it, so that a constant execution_id (or
-- execution) makes each linear in the steps of that execution.

-- Which steps were queued, by which commit: the runs [first, count] of the log, expanded.
CREATE VIEW step_queued AS
SELECT x.no AS execution, x.id AS execution_id, r.first + g.n AS idx, l.version, l.at
FROM execution x
    JOIN step_log l ON l.execution = x.no AND l.queued IS NOT NULL
    CROSS JOIN LATERAL (SELECT (q.value ->> 0)::int AS first, (q.value ->> 1)::int AS count FROM json_array_elements(l.queued::json) q) r
    CROSS JOIN LATERAL generate_series(0, r.count - 1) AS g (n);

-- Every step with its state. One without a row is pending, or queued when the log says so; a row that has not ended is older than a
-- later queueing. A step inside a group or for_each that is queued for the first time has no name yet and shows as #index.
CREATE VIEW step_state AS
SELECT x.no AS execution, x.id AS execution_id, p.idx,
    coalesce(r.key, p.definition ->> 'id', '#' || p.idx) AS key,
    p.definition ->> 'name' AS name,
    coalesce(${json r.rare} ->> 'a', p.definition ->> 'action') AS action,
    p.definition,
    CASE
        WHEN r.status >= 5 THEN r.status
        WHEN p.queued_version >= coalesce(r.version, 0) THEN 1
        ELSE coalesce(r.status, 0)
    END AS status,
    coalesce(r.attempt, 0) AS attempt,
    coalesce(r.version, p.queued_version) AS version,
    r.seq, r.worker, r.output, r.external,
    ${json r.rare} ->> 'i' AS input,
    ${json r.rare} -> 'f' AS failure,
    (${json r.rare} ->> 'w')::bigint AS wake,
    (${json r.rare} ->> 'c')::bigint AS cost,
    CASE
        WHEN r.status >= 5 THEN r.queued
        WHEN p.queued_version >= coalesce(r.version, 0) THEN p.queued_at
        ELSE r.queued
    END AS queued,
    r.started, r.ended
FROM execution x
    CROSS JOIN LATERAL (
        SELECT a.idx, max(a.definition)::json AS definition, max(a.version) AS queued_version, max(a.at) AS queued_at
        FROM (
            SELECT (s.n - 1)::int AS idx, s.value::text AS definition, NULL::bigint AS version, NULL::bigint AS at
            FROM definition d CROSS JOIN LATERAL json_array_elements(${json d.body} -> 'steps') WITH ORDINALITY AS s (value, n)
            WHERE d.hash = x.definition
            UNION ALL
            SELECT s.idx, NULL, NULL, NULL FROM step s
            WHERE s.execution = x.no AND (s.key IS NOT NULL OR s.external IS NOT NULL OR s.rare IS NOT NULL)
            UNION ALL
            SELECT q.idx, NULL, q.version, q.at FROM step_queued q WHERE q.execution = x.no AND x.status < 4
        ) a
        GROUP BY a.idx
    ) p
    LEFT JOIN step r ON r.execution = x.no AND r.idx = p.idx
WHERE r.superseded IS NULL;

CREATE VIEW pipeline_steps AS
SELECT s.execution_id || ':' || s.idx AS id,
    s.execution_id,
    coalesce(s.name, CASE
        WHEN s.definition IS NOT NULL THEN s.key
        WHEN position(':' IN s.key) > 0 THEN split_part(s.key, ':', 1)
        WHEN s.key LIKE '%]' THEN rtrim(rtrim(s.key, ']0123456789'), '[')
        ELSE substring(s.key FROM '[^.]*$')
    END) AS step_name,
    s.key AS step_key,
    CASE s.status ${statuses} END AS status,
    coalesce(b.depends_on, (s.definition -> 'depends_on')::text, '[]') AS depends_on,
    coalesce((s.definition -> 'params')::text, CASE WHEN s.definition IS NULL THEN s.input END, '{}') AS params,
    s.input AS input_data,
    -- a large output is named, not shown
    CASE WHEN left(s.output, 1) = '@' THEN '{"blob":' || to_json(s.output)::text || '}' ELSE s.output END AS output_data,
    s.worker AS worker_id,
    s.failure ->> 'message' AS error_message,
    s.attempt,
    ${time coalesce(b.created, x.created)} AS created_at,
    ${time s.queued} AS queued_at,
    ${time s.started} AS started_at,
    ${time s.ended} AS completed_at,
    ${time s.wake} AS wake_at,
    s.external AS waits_for,
    coalesce(s.cost, 0) AS cost_micros
FROM step_state s
    JOIN execution x ON x.no = s.execution
    LEFT JOIN spawned b ON b.execution = s.execution AND b.idx = s.idx;

-- Every event of the log in one form. at and started are absolute.
CREATE VIEW step_report AS
SELECT x.no AS execution, x.id AS execution_id, l.version, e.n - 1 AS position,
    CASE WHEN e.short THEN ${done} ELSE (e.value ->> 'k')::int END AS kind,
    CASE WHEN e.short THEN (e.value ->> 1)::int ELSE coalesce((e.value ->> 'i')::int, 0) END AS idx,
    CASE WHEN e.short THEN (e.value ->> 2)::bigint ELSE coalesce((e.value ->> 'p')::bigint, 0) END AS epoch,
    l.at + CASE WHEN e.short THEN (e.value ->> 3)::bigint ELSE (e.value ->> 'd')::bigint END AS at,
    l.at + CASE WHEN e.short THEN (e.value ->> 3)::bigint + (e.value ->> 4)::bigint ELSE (e.value ->> 'd')::bigint + (e.value ->> 's')::bigint END AS started,
    CASE WHEN NOT e.short THEN e.value ->> 'w' END AS worker,
    CASE WHEN NOT e.short THEN coalesce(e.value #>> '{f,message}', e.value ->> 'step',
        (SELECT string_agg(s.value ->> 'key', ', ') FROM json_array_elements(e.value -> 'spawn') s), e.value ->> 'reason') END AS detail
FROM execution x
    JOIN step_log l ON l.execution = x.no
    CROSS JOIN LATERAL (
        SELECT v.value, v.n, json_typeof(v.value) = 'array' AS short FROM json_array_elements(${json l.body} -> 'e') WITH ORDINALITY AS v (value, n)
    ) e;

-- Everything that happened. The keys of steps come in as rows of their own and reach the others by a window over the step.
CREATE VIEW step_event AS
SELECT x.no AS execution, x.id AS execution_id, e.version, e.type, e.idx, e.key, e.at, e.worker, e.attempt, e.detail
FROM execution x
    CROSS JOIN LATERAL (
        SELECT version, type, idx, at, worker, attempt, detail,
            max(name) OVER (PARTITION BY idx) AS key,
            row_number() OVER (PARTITION BY idx, epoch, type ORDER BY version, position) AS nth
        FROM (
            SELECT NULL::bigint AS version, NULL::text AS type, (s.n - 1)::int AS idx, NULL::bigint AS epoch, NULL::bigint AS at, NULL::text AS worker,
                NULL::bigint AS attempt, NULL::text AS detail, NULL::bigint AS position, s.value ->> 'id' AS name
            FROM definition d CROSS JOIN LATERAL json_array_elements(${json d.body} -> 'steps') WITH ORDINALITY AS s (value, n)
            WHERE d.hash = x.definition
            UNION ALL
            SELECT NULL, NULL, r.idx, NULL, NULL, NULL, NULL, NULL, NULL, r.key
            FROM step r
            WHERE r.execution = x.no AND r.key IS NOT NULL
            UNION ALL
            -- what the log says; a step's end is told by its row, if that is still the row of this end
            SELECT p.version, CASE p.kind ${types} END,
                CASE WHEN NOT (p.kind IN (${of_execution}) OR p.idx < 0) THEN p.idx END, p.epoch, p.at, p.worker,
                CASE WHEN r.version = p.version THEN r.attempt ELSE p.epoch END, p.detail, NULL, NULL
            FROM step_report p LEFT JOIN step r ON r.execution = p.execution AND r.idx = p.idx
            WHERE p.execution = x.no AND NOT (p.kind IN (${ends_step}) AND r.version IS NOT DISTINCT FROM p.version AND r.status >= 5)
            UNION ALL
            -- a start is told with the end of the attempt, or before if that takes long
            SELECT p.version, 'started', p.idx, p.epoch, p.started, coalesce(p.worker, CASE WHEN r.version = p.version THEN r.worker END),
                CASE WHEN r.version = p.version THEN r.attempt ELSE p.epoch END, NULL, p.position, NULL
            FROM step_report p LEFT JOIN step r ON r.execution = p.execution AND r.idx = p.idx
            WHERE p.execution = x.no AND p.kind IN (${of_attempt}) AND p.started > 0
            UNION ALL
            SELECT q.version, 'queued', q.idx, q.version, q.at, NULL, NULL, NULL, NULL, NULL
            FROM step_queued q
            WHERE q.execution = x.no
            UNION ALL
            SELECT r.version, CASE r.status ${statuses} END, r.idx, r.version, r.ended, r.worker, r.attempt, ${json r.rare} #>> '{f,message}', NULL, NULL
            FROM step r
            WHERE r.execution = x.no AND r.status >= 5
        ) told
    ) e
WHERE e.type IS NOT NULL AND (e.type <> 'started' OR e.nth = 1);

CREATE VIEW pipeline_step_log AS
SELECT execution_id,
    CASE WHEN idx IS NOT NULL THEN coalesce(key, '#' || idx) END AS step_key,
    type AS event_type,
    worker AS worker_id,
    attempt,
    detail AS details,
    ${time at} AS created_at,
    version
FROM step_event;
