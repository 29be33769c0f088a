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

-- name: release
-- The process that opens the database to run executions is the only one: all other owners have died.
UPDATE execution SET owner = NULL WHERE status < 4 AND owner IS NOT NULL

-- name: claim
UPDATE execution SET owner = ?1
WHERE no IN (SELECT no FROM execution WHERE status < 4 AND owner IS NULL ORDER BY coalesce(priority, 0) DESC, no LIMIT +?2)
RETURNING {execution}, outputs

-- name: requests_pending
SELECT EXISTS (SELECT 1 FROM request)

-- name: data_version
PRAGMA data_version
