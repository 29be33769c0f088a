-- name: numbers
-- A block of ?1 numbers: above all that were handed out, and above those of the executions that are or were there.
INSERT INTO counter (name, next)
SELECT 'execution', max(coalesce((SELECT max(no) FROM execution), 0), coalesce((SELECT max(no) FROM gone), 0)) + 1 + ?1 WHERE true
ON CONFLICT (name) DO UPDATE SET next = max(next, excluded.next - ?1) + ?1
RETURNING next - ?1

-- name: definition_body
SELECT body FROM definition WHERE hash = ?

-- name: definition_stored
SELECT 1 FROM definition WHERE hash = ?

-- name: step_log
SELECT version, body FROM step_log WHERE execution = ? AND version > ? ORDER BY version LIMIT +?

-- name: memo_value
SELECT value FROM memo WHERE execution = ? AND step = ? AND key = ?

-- name: outputs
SELECT idx, seq, status, attempt, output, worker, queued, started, ended, rare
FROM step
WHERE execution = ? AND status = 5 AND seq IS NOT NULL AND rare ->> 'o' IS NULL
ORDER BY seq

-- name: unfinished
SELECT no, id, pipeline, status, definition, parent, caused_by, dir, created, started, ended, failure, progress, params, outputs,
    workflow, workflow_version, job, actor, concurrency, priority,
    (SELECT coalesce(max(version), 0) FROM step_log l WHERE l.execution = x.no)
FROM execution x
WHERE status < 4
ORDER BY no

-- name: requests_pending
SELECT EXISTS (SELECT 1 FROM request)

-- name: data_version
PRAGMA data_version
