-- name: execution
SELECT no, id, pipeline, status, definition, parent, caused_by, dir, created, started, ended, failure, progress, params, outputs,
    (SELECT coalesce(max(version), 0) FROM step_log l WHERE l.execution = x.no)
FROM execution x
WHERE id >= ?1 AND id < ?1 || char(0x10FFFF)
ORDER BY id
LIMIT 2

-- name: executions
SELECT no, id, pipeline, status, definition, parent, caused_by, dir, created, started, ended, failure, progress, params, NULL,
    (SELECT coalesce(max(version), 0) FROM step_log l WHERE l.execution = x.no)
FROM execution x
WHERE no < coalesce((SELECT no FROM execution WHERE id = ?1), 9223372036854775807)
    AND (?2 = '' OR pipeline = ?2)
    AND (?3 = 0 OR (1 << status) & ?3)
ORDER BY no DESC
LIMIT ?4

-- name: steps
SELECT idx, seq, status, attempt, key, action, name, output, input, failure, worker, queued, started, ended, wake
FROM step_state
WHERE execution = ?1 AND idx >= ?2
    AND (?3 = 0 OR (1 << status) & ?3)
    AND (?4 = '' OR key = ?4)
ORDER BY idx
LIMIT ?5

-- name: logs
SELECT seq, execution, step, step_key, attempt, at, level, message, attrs
FROM log_line
WHERE execution = ?1 AND seq > ?2 AND level >= ?3 AND at >= ?4 AND (?5 = '' OR step_key = ?5)
ORDER BY seq
LIMIT ?6

-- name: logs_tail
SELECT * FROM (
    SELECT seq, execution, step, step_key, attempt, at, level, message, attrs
    FROM log_line
    WHERE execution = ?1 AND seq > ?2 AND level >= ?3 AND at >= ?4 AND (?5 = '' OR step_key = ?5)
    ORDER BY seq DESC
    LIMIT ?6
) ORDER BY seq

-- name: rows_between
SELECT idx, version, status, attempt, worker, ended, rare FROM step
WHERE execution = ? AND version > ? AND version <= ?

-- name: rare_keys
SELECT idx, rare ->> 'k' FROM step
WHERE execution = ? AND rare IS NOT NULL AND idx IN (SELECT value FROM json_each(?))

-- name: step_ids
SELECT s.value ->> 'id' FROM definition d JOIN json_each(d.body, '$.steps') s WHERE d.hash = ? ORDER BY s.key

-- name: execution_definition
SELECT definition FROM execution WHERE no = ?

-- name: seen_running
SELECT e.value ->> 'i', e.value ->> 'p' FROM step_log l JOIN json_each(l.body, '$.e') e
WHERE l.execution = ? AND l.version <= ? AND instr(l.body, '{"k":6,') AND e.type = 'object' AND e.value ->> 'k' = 6
