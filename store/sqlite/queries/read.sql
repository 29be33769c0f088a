-- name: execution
SELECT {execution}, outputs
FROM execution x
WHERE id >= ?1 AND id < ?1 || char(0x10FFFF)
ORDER BY id
LIMIT +?2

-- name: executions
SELECT {execution}, NULL
FROM execution x
WHERE no < coalesce((SELECT no FROM execution WHERE id = ?1), 9223372036854775807)
    AND (?2 = '' OR pipeline = ?2)
    AND (?3 = 0 OR (1 << status) & ?3)
    AND (?4 = '' OR workflow = ?4)
    AND (?5 = '' OR job = ?5)
    AND (?6 = '' OR parent = ?6)
    AND (?7 = '' OR caused_by = ?7)
    AND created >= ?8 AND created < ?9
    AND (?11 = '' OR project = ?11)
    AND (?12 = '' OR lesson = ?12)
    AND (?13 = 0 OR workflow_version = ?13)
    AND (?14 = '' OR partition_key = ?14)
    AND (NOT ?15 OR instr(progress, '"footprints":true') > 0)
ORDER BY no DESC
LIMIT +?10

-- name: unfinished_runs
SELECT {execution}, NULL
FROM execution x
WHERE status < 4 AND status <> 2 AND lesson IS NOT NULL
    AND no > CASE ?1 WHEN '' THEN 0 ELSE coalesce((SELECT no FROM execution WHERE id = ?1), (SELECT no - 1 FROM execution WHERE id > ?1 ORDER BY id LIMIT 1), 9223372036854775807) END
ORDER BY no
LIMIT +?2

-- name: steps
-- What the view step_state says of the steps from ?2 to before ?3; only those are looked at. Most records of the log queue nothing: to look for
-- "q" in their text costs a fifth of parsing them.
WITH RECURSIVE run (idx, until, version, at) AS (
    SELECT max(q.value ->> 0, ?2), min((q.value ->> 0) + (q.value ->> 1), ?3), l.version, l.body ->> '$.t'
    FROM execution x JOIN step_log l ON l.execution = x.no JOIN json_each(l.body, '$.q') q
    WHERE x.no = ?1 AND x.status < 4 AND l.body GLOB '*"q":*' AND q.value ->> 0 < ?3 AND (q.value ->> 0) + (q.value ->> 1) > ?2
    UNION ALL
    SELECT idx + 1, until, version, at FROM run WHERE idx + 1 < until
)
SELECT idx, seq, status, attempt, key, action, name, output, input, failure, worker, queued, started, ended, wake, external, cost, counted,
    input_tokens, output_tokens, audio, resources
FROM (
    SELECT p.idx, r.seq, r.output, r.worker, r.started, r.ended,
        coalesce(r.attempt, 0) AS attempt,
        coalesce(r.rare ->> 'k', p.definition ->> 'id', '#' || p.idx) AS key,
        coalesce(r.rare ->> 'a', p.definition ->> 'action') AS action,
        p.definition ->> 'name' AS name,
        r.rare ->> 'i' AS input, r.rare -> 'f' AS failure, r.rare ->> 'w' AS wake,
        r.rare ->> 'x' AS external, r.rare ->> 'c' AS cost, r.rare -> 'n' AS counted,
        r.rare ->> 'in' AS input_tokens, r.rare ->> 'out' AS output_tokens, r.rare ->> 'audio' AS audio, r.rare -> 'res' AS resources,
        CASE WHEN r.status >= 5 THEN r.status WHEN p.version >= coalesce(r.version, 0) THEN 1 ELSE coalesce(r.status, 0) END AS status,
        CASE WHEN r.status >= 5 THEN r.queued WHEN p.version >= coalesce(r.version, 0) THEN p.at ELSE r.queued END AS queued
    FROM (
            SELECT idx, max(definition) AS definition, max(version) AS version, max(at) AS at
            FROM (
                SELECT s.key AS idx, s.value AS definition, NULL AS version, NULL AS at
                FROM execution x JOIN definition d ON d.hash = x.definition JOIN json_each(d.body, '$.steps') s
                WHERE x.no = ?1 AND s.key >= ?2 AND s.key < ?3
                UNION ALL
                SELECT idx, NULL, NULL, NULL FROM step WHERE execution = ?1 AND idx >= ?2 AND idx < ?3 AND rare IS NOT NULL
                UNION ALL
                SELECT idx, NULL, version, at FROM run
            )
            GROUP BY idx
        ) p
        LEFT JOIN step r ON r.execution = ?1 AND r.idx = p.idx
    WHERE r.rare ->> 'o' IS NULL
)
WHERE (?4 = 0 OR (1 << status) & ?4) AND (?5 = '' OR key = ?5)
ORDER BY idx
LIMIT +?6

-- name: steps_odd
-- The steps from ?2 on that ended in one of some statuses, none of them completed, as the view step_state shows them. Their
-- rows are found by the index of such steps.
WITH found AS MATERIALIZED (
    SELECT idx, seq, status, attempt, rare, output, worker, queued, started, ended
    FROM step INDEXED BY step_odd
    WHERE execution = ?1 AND status > 5 AND idx >= ?2 AND (1 << status) & ?3 AND rare ->> 'o' IS NULL
    ORDER BY idx
    LIMIT +?4
), named AS MATERIALIZED (
    SELECT s.key AS idx, s.value AS definition
    FROM execution x JOIN definition d ON d.hash = x.definition JOIN json_each(d.body, '$.steps') s
    WHERE x.no = ?1 AND s.key IN (SELECT idx FROM found)
)
SELECT f.idx, f.seq, f.status, f.attempt, coalesce(f.rare ->> 'k', n.definition ->> 'id', '#' || f.idx), coalesce(f.rare ->> 'a', n.definition ->> 'action'),
    n.definition ->> 'name', f.output, f.rare ->> 'i', f.rare -> 'f', f.worker, f.queued, f.started, f.ended, f.rare ->> 'w', f.rare ->> 'x', f.rare ->> 'c', f.rare -> 'n',
    f.rare ->> 'in', f.rare ->> 'out', f.rare ->> 'audio', f.rare -> 'res'
FROM found f LEFT JOIN named n ON n.idx = f.idx
ORDER BY f.idx

-- name: steps_at
SELECT idx, seq, status, attempt, coalesce(rare ->> 'k', ''), rare ->> 'a', NULL, output, rare ->> 'i', rare -> 'f', worker, queued, started, ended,
    rare ->> 'w', rare ->> 'x', rare ->> 'c', rare -> 'n', rare ->> 'in', rare ->> 'out', rare ->> 'audio', rare -> 'res'
FROM step
WHERE execution = ?1 AND idx IN (SELECT value FROM json_each(?2)) AND rare ->> 'o' IS NULL
ORDER BY idx

-- name: states_end
SELECT idx + 1, worker, (SELECT status >= 4 FROM execution WHERE no = ?1) FROM step WHERE execution = ?1 ORDER BY idx DESC LIMIT 1

-- name: states
SELECT (idx << 32) | ((attempt & 0xffffff) << 8) | status, version, queued, started, ended, iif(worker = ?4, 0, worker),
    CASE WHEN length(rare) > 500 THEN json_object('k', rare ->> 'k', 'c', rare ->> 'c', 'o', rare -> 'o') ELSE rare END
FROM step
WHERE execution = ?1 AND idx >= ?2 AND idx < ?3
ORDER BY idx

-- name: states_of
SELECT (idx << 32) | ((attempt & 0xffffff) << 8) | status, version, queued, started, ended, worker,
    CASE WHEN length(rare) > 500 THEN json_object('k', rare ->> 'k', 'c', rare ->> 'c', 'o', rare -> 'o') ELSE rare END
FROM step
WHERE execution = ?1 AND idx IN (SELECT value FROM json_each(?2))
ORDER BY idx

-- name: queued
SELECT q.value ->> 0, (q.value ->> 0) + (q.value ->> 1), l.version, l.body ->> '$.t'
FROM execution x JOIN step_log l ON l.execution = x.no JOIN json_each(l.body, '$.q') q
WHERE x.no = ?1 AND x.status < 4 AND l.body GLOB '*"q":*'

-- name: logs
SELECT seq, execution, step, step_key, attempt, at, level, message, attrs
FROM log_line
WHERE execution = ?1 AND seq > ?2 AND seq < ?7 AND level >= ?3 AND at >= ?4 AND at < ?8 AND (?9 = 0 OR attempt = ?9) AND (?5 = '' OR step_key = ?5)
ORDER BY seq
LIMIT +?6

-- name: logs_tail
SELECT * FROM (
    SELECT seq, execution, step, step_key, attempt, at, level, message, attrs
    FROM log_line
    WHERE execution = ?1 AND seq > ?2 AND seq < ?7 AND level >= ?3 AND at >= ?4 AND at < ?8 AND (?9 = 0 OR attempt = ?9) AND (?5 = '' OR step_key = ?5)
    ORDER BY seq DESC
    LIMIT +?6
) ORDER BY seq

-- name: logs_texts
-- One row: a row of its own for each line costs more than finding it.
SELECT count(*), coalesce(min(seq), 0), coalesce(max(seq), 0), coalesce(group_concat(message, char(0)), '') FROM (
    SELECT seq, message
    FROM log_line
    WHERE execution = ?1 AND seq > ?2 AND seq < ?7 AND level >= ?3 AND at >= ?4 AND at < ?8 AND (?9 = 0 OR attempt = ?9) AND (?5 = '' OR step_key = ?5)
    ORDER BY seq
    LIMIT +?6
)

-- name: logs_texts_tail
SELECT count(*), coalesce(min(seq), 0), coalesce(max(seq), 0), coalesce(group_concat(message, char(0)), '') FROM (
    SELECT seq, message
    FROM log_line
    WHERE execution = ?1 AND seq > ?2 AND seq < ?7 AND level >= ?3 AND at >= ?4 AND at < ?8 AND (?9 = 0 OR attempt = ?9) AND (?5 = '' OR step_key = ?5)
    ORDER BY seq DESC
    LIMIT +?6
)

-- name: logs_texts_ends
-- Where the next lines begin and end: all of it is in the index.
SELECT coalesce((SELECT seq FROM log_line WHERE execution = ?1 AND seq > ?2 AND seq < ?3 ORDER BY seq LIMIT 1), 0), coalesce(
    (SELECT seq FROM log_line WHERE execution = ?1 AND seq > ?2 AND seq < ?3 ORDER BY seq LIMIT 1 OFFSET ?4 - 1),
    (SELECT seq FROM log_line WHERE execution = ?1 AND seq > ?2 AND seq < ?3 ORDER BY seq DESC LIMIT 1), 0)

-- name: logs_texts_ends_tail
SELECT coalesce(
    (SELECT seq FROM log_line WHERE execution = ?1 AND seq > ?2 AND seq < ?3 ORDER BY seq DESC LIMIT 1 OFFSET ?4 - 1),
    (SELECT seq FROM log_line WHERE execution = ?1 AND seq > ?2 AND seq < ?3 ORDER BY seq LIMIT 1), 0),
    coalesce((SELECT seq FROM log_line WHERE execution = ?1 AND seq > ?2 AND seq < ?3 ORDER BY seq DESC LIMIT 1), 0)

-- name: logs_texts_ends_all
-- The same of all lines: none is counted.
SELECT coalesce((SELECT seq FROM log_line WHERE execution = ?1 AND seq > ?2 AND seq < ?3 ORDER BY seq LIMIT 1), 0),
    coalesce((SELECT seq FROM log_line WHERE execution = ?1 AND seq > ?2 AND seq < ?3 ORDER BY seq DESC LIMIT 1), 0)

-- name: logs_texts_between
-- Lines that are next to one another are read as they lie: to find each by an index, and to bound their number, takes twice as long.
SELECT count(*), coalesce(group_concat(message, char(0)), '')
FROM log_line NOT INDEXED
WHERE seq BETWEEN ?2 AND ?3 AND execution = ?1

-- name: log_spans
-- Every count is of entries of an index that has all it needs.
WITH ends AS MATERIALIZED (
    SELECT (SELECT min(seq) FROM log_line WHERE execution = ?1) AS lo, (SELECT max(seq) FROM log_line WHERE execution = ?1) + 1 AS hi
), number (n) AS (
    SELECT 0 UNION ALL SELECT n + 1 FROM number WHERE n + 1 < ?2
), span AS MATERIALIZED (
    SELECT n, lo + n * ((hi - lo - 1) / ?2 + 1) AS lo, min(hi, lo + (n + 1) * ((hi - lo - 1) / ?2 + 1)) AS hi
    FROM ends JOIN number WHERE lo IS NOT NULL
), odd AS MATERIALIZED (
    SELECT (seq - e.lo) / ((e.hi - e.lo - 1) / ?2 + 1) AS n, sum(level = 0) AS debug, sum(level = 2) AS warnings, sum(level = 3) AS errors
    FROM ends e JOIN log_line INDEXED BY log_line_level
    WHERE execution = ?1 AND level <> 1
    GROUP BY 1
)
SELECT f.seq, s.hi, f.at,
    (SELECT count(*) FROM log_line INDEXED BY log_line_execution WHERE execution = ?1 AND seq >= s.lo AND seq < s.hi),
    coalesce(o.debug, 0), coalesce(o.warnings, 0), coalesce(o.errors, 0)
FROM span s
    JOIN log_line f ON f.seq = (SELECT min(seq) FROM log_line INDEXED BY log_line_execution WHERE execution = ?1 AND seq >= s.lo AND seq < s.hi)
    LEFT JOIN odd o ON o.n = s.n
ORDER BY s.n

-- name: log_warnings
SELECT e.value, (SELECT count(*) FROM (SELECT level FROM log_line INDEXED BY log_line_level WHERE execution = e.value AND level <> 1 ORDER BY seq LIMIT +?2) WHERE level = 2)
FROM json_each(?1) e

-- name: logs_loud
-- As logs, of levels above info.
SELECT seq, execution, step, step_key, attempt, at, level, message, attrs
FROM log_line INDEXED BY log_line_level
WHERE execution = ?1 AND seq > ?2 AND seq < ?7 AND level <> 1 AND level >= ?3 AND at >= ?4 AND at < ?8 AND (?9 = 0 OR attempt = ?9) AND (?5 = '' OR step_key = ?5)
ORDER BY seq
LIMIT +?6

-- name: logs_loud_tail
SELECT * FROM (
    SELECT seq, execution, step, step_key, attempt, at, level, message, attrs
    FROM log_line INDEXED BY log_line_level
    WHERE execution = ?1 AND seq > ?2 AND seq < ?7 AND level <> 1 AND level >= ?3 AND at >= ?4 AND at < ?8 AND (?9 = 0 OR attempt = ?9) AND (?5 = '' OR step_key = ?5)
    ORDER BY seq DESC
    LIMIT +?6
) ORDER BY seq

-- name: log_page
SELECT version, body, unnamed FROM step_log WHERE execution = ? AND version > ? ORDER BY version

-- name: rows_between
SELECT idx, version, status, worker, ended, rare FROM step
WHERE execution = ?1 AND version > ?2 AND version <= ?3

-- name: rows_named
SELECT idx, version, status, worker, ended, rare FROM step
WHERE execution = ?1 AND idx IN (SELECT value FROM json_each(?2))

-- name: execution_definition
SELECT definition FROM execution WHERE no = ?

-- name: seen_running
SELECT idx, epoch FROM seen
WHERE execution = ?1 AND version <= ?2 AND idx IN (SELECT value FROM json_each(?3))

-- name: outside
SELECT w.execution, w.idx, w.epoch, w.attempt, w.key, w.action, w.state, w.since, w.held, w.tries, w.next, w.error,
    x.id, x.status >= 4 OR coalesce(r.status >= 5, 0), coalesce(r.status = 5, 0)
FROM outside_work w JOIN execution x ON x.no = w.execution LEFT JOIN step r ON r.execution = w.execution AND r.idx = w.idx
WHERE (?1 = 0 OR w.execution = ?1) AND (w.execution, w.idx, w.epoch) > (?2, ?3, ?4)
ORDER BY w.execution, w.idx, w.epoch
LIMIT +?5
