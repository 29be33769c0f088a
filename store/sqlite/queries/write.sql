-- name: begin
BEGIN IMMEDIATE

-- name: commit
COMMIT

-- name: rollback
ROLLBACK

-- name: log
INSERT INTO step_log (execution, version, body, unnamed)
VALUES (?, ?, ?, ?)

-- name: log_before
SELECT EXISTS (SELECT 1 FROM step_log WHERE execution = ? AND version = ?)

-- name: create
INSERT INTO execution (no, id, pipeline, status, definition, parent, caused_by, dir, created, started, ended, failure,
    progress, params, outputs, workflow, workflow_version, job, actor, concurrency, priority, owner, project, lesson, partition_key)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: update
UPDATE execution
SET status = ?2, started = coalesce(?3, started), ended = ?4, failure = ?5, progress = ?6, outputs = ?7
WHERE no = ?1

-- name: step
REPLACE INTO step (execution, idx, version, status, attempt, seq, queued, started, ended, worker, output, rare)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: spawned
INSERT INTO spawned (execution, idx, depends_on, created) VALUES (?, ?, ?, ?)
ON CONFLICT DO NOTHING

-- name: refusal
SELECT EXISTS (SELECT 1 FROM step_log WHERE execution = ?1 AND version = ?2) OR ?2 = 1 AND EXISTS (SELECT 1 FROM execution WHERE no = ?1),
    EXISTS (SELECT 1 FROM step_log WHERE execution = ?1 AND version = ?2 - 1),
    EXISTS (SELECT 1 FROM execution WHERE id = ?3),
    EXISTS (SELECT 1 FROM start_key WHERE key = ?4)

-- name: log_line
INSERT INTO log_line (execution, step, step_key, attempt, at, level, message, attrs)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: definition
INSERT INTO definition (hash, body) VALUES (?, ?) ON CONFLICT DO NOTHING

-- name: memo
INSERT INTO memo (execution, step, key, value, epoch)
SELECT ?1, ?2, ?3, ?4, ?5 WHERE NOT EXISTS (SELECT 1 FROM memo WHERE execution = ?1 AND step = ?2 AND key = x'' AND epoch > ?5)
ON CONFLICT DO NOTHING

-- name: memo_refused
SELECT EXISTS (SELECT 1 FROM memo WHERE execution = ? AND step = ? AND key = x'' AND epoch > ?)

-- name: memo_fence
INSERT INTO memo (execution, step, key, value, epoch) VALUES (?, ?, x'', '', ?)

-- name: request
INSERT INTO request (execution, kind, body, owner) VALUES (?, ?, ?, ?)

-- name: take_requests
DELETE FROM request WHERE no IN (SELECT no FROM request WHERE owner IN (0, ?1) ORDER BY no LIMIT +?2)
RETURNING no, execution, kind, body, owner

-- name: supersede
UPDATE step SET rare = json_set(rare, '$.o', 1)
WHERE execution = ?1 AND idx < ?2 AND rare IS NOT NULL
    AND (?4 AND rare ->> 'k' = ?3 OR substr(rare ->> 'k', 1, length(?3) + 1) IN (?3 || '.', ?3 || '['))

-- name: forget
DELETE FROM memo WHERE execution = ? AND step = ?

-- name: start_key_put
INSERT INTO start_key (key, hash, execution, created) VALUES (?, ?, ?, ?)

-- name: outgoing_put
INSERT INTO outgoing (kind, execution, body, at) VALUES (?, ?, ?, ?)

-- name: signal_put
INSERT INTO signal (key, id, body, at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING

-- name: first_put
INSERT INTO signal (key, id, body, at, taken) VALUES (?, ?, ?, ?, 0) ON CONFLICT DO NOTHING

-- name: first
SELECT body FROM signal WHERE key = ? AND id = ?

-- name: signal_take
UPDATE signal SET taken = ?1 WHERE key = ?2 AND taken IS NULL

-- name: seen_put
INSERT INTO seen (execution, idx, epoch, version) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING

-- name: waiting_put
REPLACE INTO waiting (execution, idx, external) VALUES (?, ?, ?)

-- name: waiting_end
DELETE FROM waiting WHERE execution = ?

-- name: blob_use_put
INSERT INTO blob_use (execution, hash) VALUES (?, ?) ON CONFLICT DO NOTHING

-- name: outside_put
INSERT INTO outside_work (execution, idx, epoch, attempt, key, action, state, since, held, tries, next, error) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET attempt = excluded.attempt, state = excluded.state, since = excluded.since, held = excluded.held, tries = excluded.tries, next = excluded.next, error = excluded.error

-- name: outside_delete
DELETE FROM outside_work WHERE execution = ? AND idx = ? AND epoch = ?

-- name: outside_replaced
DELETE FROM outside_work WHERE execution = ? AND idx = ? AND epoch < ? AND held
