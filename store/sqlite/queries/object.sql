-- name: object_find
SELECT revision, created FROM object WHERE kind = +? AND id = ?

-- name: object_put
INSERT INTO object (kind, id, name, revision, body, created, updated) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (kind, id) DO UPDATE SET name = ?3, revision = ?4, body = ?5, updated = ?7

-- name: object_delete
DELETE FROM object WHERE kind = +? AND id = ?

-- name: object_blobs_drop
DELETE FROM object_blob WHERE kind = ?1 AND id = ?2 AND hash NOT IN (SELECT value ->> 0 FROM json_each(?3))

-- name: object_blobs_put
INSERT INTO object_blob (kind, id, hash, size) SELECT ?1, ?2, value ->> 0, value ->> 1 FROM json_each(?3) WHERE true ON CONFLICT DO NOTHING

-- name: object
SELECT kind, id, coalesce(name, ''), revision, body, created, updated FROM object WHERE kind = +?1 AND id = ?2
UNION ALL
SELECT kind, id, name, revision, body, created, updated FROM object WHERE kind = +?1 AND name = ?2 AND ?2 <> ''
LIMIT 1

-- name: objects
SELECT kind, id, coalesce(name, ''), revision, body, created, updated FROM object
WHERE kind = +?1 AND id >= ?2 AND id < ?2 || char(0x10FFFF) AND id > ?3
ORDER BY id
LIMIT +?4

-- name: objects_after
-- The + keeps the index from beginning at the prefix instead of behind the page before: each page would read all before it.
SELECT kind, id, coalesce(name, ''), revision, body, created, updated FROM object
WHERE kind = +?1 AND +id >= ?2 AND id < ?2 || char(0x10FFFF) AND id > ?3
ORDER BY id
LIMIT +?4
