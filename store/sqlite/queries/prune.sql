-- name: prunable
SELECT no FROM execution
WHERE status >= 4 AND ended < ?1 AND no NOT IN (SELECT value FROM json_each(?2))
    AND NOT EXISTS (SELECT 1 FROM outside_work w WHERE w.execution = no AND NOT w.held AND w.next > 0)
ORDER BY ended
LIMIT +?3

-- name: prune_blobs
SELECT DISTINCT hash FROM blob_use WHERE execution IN (SELECT value FROM json_each(?))

-- name: prune_execution
DELETE FROM execution WHERE no = ?1 AND status >= 4 AND ended < ?2

-- name: prune_begin
INSERT INTO gone (no) VALUES (?) ON CONFLICT DO UPDATE SET done = 0

-- name: prune_left
SELECT no FROM gone WHERE NOT done AND no NOT IN (SELECT value FROM json_each(?)) ORDER BY no LIMIT +?

-- name: prune_done
UPDATE gone SET done = 1 WHERE no = ?

-- name: prune_forget
DELETE FROM gone WHERE done AND no < (SELECT max(no) FROM gone)

-- name: prune_step
DELETE FROM step WHERE execution = ?1 AND idx IN (SELECT idx FROM step WHERE execution = ?1 LIMIT +?2)

-- name: prune_step_log
DELETE FROM step_log WHERE execution = ?1 AND version IN (SELECT version FROM step_log WHERE execution = ?1 LIMIT +?2)

-- name: prune_log_line
DELETE FROM log_line WHERE seq IN (SELECT seq FROM log_line WHERE execution = ?1 LIMIT +?2)

-- name: prune_spawned
DELETE FROM spawned WHERE execution = ?1 AND idx IN (SELECT idx FROM spawned WHERE execution = ?1 LIMIT +?2)

-- name: prune_seen
DELETE FROM seen WHERE execution = ?1 AND idx IN (SELECT idx FROM seen WHERE execution = ?1 LIMIT +?2)

-- name: prune_waiting
DELETE FROM waiting WHERE execution = ?1 AND idx IN (SELECT idx FROM waiting WHERE execution = ?1 LIMIT +?2)

-- name: prune_memo
DELETE FROM memo WHERE execution = ?1 AND step IN (SELECT step FROM memo WHERE execution = ?1 LIMIT +?2)

-- name: prune_start_key
DELETE FROM start_key WHERE key IN (SELECT key FROM start_key WHERE execution = ?1 LIMIT +?2)

-- name: prune_blob_use
DELETE FROM blob_use WHERE execution = ?1 AND hash IN (SELECT hash FROM blob_use WHERE execution = ?1 LIMIT +?2)

-- name: prune_logged
-- Executions with log lines, from one to the next. Numbers are given in order of creation, so none behind the
-- first that was created too late has ended in time.
WITH RECURSIVE logged (no) AS (
    SELECT min(execution) FROM log_line WHERE execution > ?3
    UNION ALL
    SELECT (SELECT min(l.execution) FROM log_line l WHERE l.execution > logged.no)
    FROM logged
    WHERE logged.no IS NOT NULL AND coalesce((SELECT created FROM execution x WHERE x.no = logged.no), 0) < ?1
)
SELECT x.no FROM logged CROSS JOIN execution x ON x.no = logged.no
WHERE x.status >= 4 AND x.ended < ?1
LIMIT +?2

-- name: prune_keys
DELETE FROM start_key WHERE key IN (SELECT key FROM start_key WHERE created < ?1 ORDER BY created LIMIT +?2)

-- name: prune_signals
DELETE FROM signal WHERE (key, id) IN (SELECT key, id FROM signal WHERE at < ?1 ORDER BY at LIMIT +?2)

-- name: prune_items
DELETE FROM progress_item WHERE (project, key) IN (SELECT project, key FROM progress_item WHERE at < ?1 ORDER BY at LIMIT +?2)

-- name: prune_audit
DELETE FROM audit WHERE no IN (SELECT no FROM audit WHERE at < ?1 ORDER BY at LIMIT +?2)

-- name: prune_firings
DELETE FROM object
WHERE kind = 'schedule_firings' AND id IN (SELECT id FROM object INDEXED BY object_firings WHERE kind = 'schedule_firings' AND updated < ?1 ORDER BY updated LIMIT +?2)

-- name: blobs_used
SELECT value FROM json_each(?) WHERE EXISTS (SELECT 1 FROM blob_use WHERE hash = value)
    OR EXISTS (SELECT 1 FROM object_blob WHERE hash = value)

-- name: blobs_count
SELECT count(*) FROM (SELECT hash FROM blob_use UNION SELECT hash FROM object_blob)

-- name: blobs_all
SELECT hash FROM blob_use WHERE hash > ?1 UNION SELECT hash FROM object_blob WHERE hash > ?1 ORDER BY hash LIMIT +?2

-- name: definitions_unused
SELECT hash FROM definition WHERE hash NOT IN (SELECT definition FROM execution)

-- name: prune_definition
DELETE FROM definition WHERE hash = ?

-- name: prune_outside
DELETE FROM outside_work WHERE execution = ?1 AND idx IN (SELECT idx FROM outside_work WHERE execution = ?1 LIMIT +?2)
