-- name: identity
SELECT id, coalesce(home, ''), coalesce(copied, 0) FROM identity

-- name: identity_exists
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'identity'

-- name: identity_home
UPDATE identity SET home = ?

-- name: identity_copied
UPDATE identity SET copied = ?, home = NULL

-- name: identity_own
UPDATE identity SET copied = NULL

-- name: refs_steps
SELECT execution, idx, output FROM step s WHERE output GLOB '@sha256:*' AND (execution, idx) > (?, ?)
    AND EXISTS (SELECT 1 FROM execution x WHERE x.no = s.execution) ORDER BY execution, idx LIMIT +?

-- name: refs_log
-- Rows of the log in which something looks like a reference.
SELECT execution, version, body FROM step_log l WHERE instr(body, '"@sha256:') AND (execution, version) > (?, ?)
    AND EXISTS (SELECT 1 FROM execution x WHERE x.no = l.execution) ORDER BY execution, version LIMIT +?

-- name: refs_outputs
SELECT no, 0, outputs FROM execution WHERE no > ? AND ? IS NOT NULL AND instr(outputs, '"@sha256:') ORDER BY no LIMIT +?

-- name: refs_objects
SELECT 0, no, '@sha256:' || hash || ':' || size FROM object_blob WHERE (0, no) > (?, ?) ORDER BY no LIMIT +?

-- name: refs_named
SELECT x.id, coalesce((SELECT p.step_key FROM pipeline_steps p WHERE p.id = x.id || ':' || ?2), '') FROM execution x WHERE x.no = ?1
