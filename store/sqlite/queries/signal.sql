-- name: start_key
SELECT k.hash, x.id, k.created FROM start_key k JOIN execution x ON x.no = k.execution WHERE k.key = ?

-- name: signals_for
SELECT s.key, s.id, s.body, s.at
FROM json_each(?1) k
    CROSS JOIN signal s ON s.key = k.value AND s.id = (SELECT id FROM signal WHERE key = k.value AND taken IS NULL ORDER BY at, id LIMIT 1)

-- name: signals_kept
SELECT coalesce(sum(octet_length(key) + coalesce(octet_length(body), 0) + 200), 0) FROM signal WHERE taken IS NULL

-- name: awaiting
SELECT w.external, x.id, coalesce(x.owner, 0), w.idx
FROM json_each(?1) k
    CROSS JOIN waiting w ON w.external = k.value
    JOIN execution x ON x.no = w.execution AND x.status < 4
    JOIN step r ON r.execution = w.execution AND r.idx = w.idx AND r.status = 4 AND r.rare ->> 'x' = w.external AND r.rare ->> 'o' IS NULL
ORDER BY w.execution, w.idx

-- name: outgoing
SELECT no, kind, execution, body, at FROM outgoing WHERE no > ? ORDER BY no LIMIT +?

-- name: outgoing_delete
DELETE FROM outgoing WHERE no IN (SELECT value FROM json_each(?))

-- name: audit_put
INSERT INTO audit (at, actor, role, remote, action, object, result, detail) VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: audit
SELECT no, at, actor, role, remote, action, object, result, detail FROM audit
WHERE no < ?1 AND at >= ?2 AND (?3 = '' OR actor = ?3) AND (?4 = '' OR action = ?4) AND (?5 = '' OR object = ?5)
ORDER BY no DESC
LIMIT +?6

-- name: execution_no
SELECT no FROM execution WHERE id = ?

-- name: waiting_steps
SELECT x.id, x.pipeline, r.idx, r.seq, r.status, r.attempt,
    coalesce(r.rare ->> 'k', d.body ->> ('$.steps[' || r.idx || '].id'), '#' || r.idx),
    coalesce(r.rare ->> 'a', d.body ->> ('$.steps[' || r.idx || '].action')),
    d.body ->> ('$.steps[' || r.idx || '].name'),
    r.output, r.rare ->> 'i', r.rare -> 'f', r.worker, r.queued, r.started, r.ended, r.rare ->> 'w', r.rare ->> 'x', r.rare ->> 'c', r.rare -> 'n',
    r.rare ->> 'in', r.rare ->> 'out', r.rare ->> 'audio', r.rare -> 'res'
FROM waiting w
    JOIN execution x ON x.no = w.execution AND x.status < 4
    JOIN step r ON r.execution = w.execution AND r.idx = w.idx AND r.status = 4 AND r.rare ->> 'x' = w.external
    LEFT JOIN definition d ON d.hash = x.definition
WHERE (w.execution, w.idx) > (?1, ?2) AND substr(w.external, 1, length(?3)) = ?3 AND r.rare ->> 'o' IS NULL
ORDER BY w.execution, w.idx
LIMIT +?4

-- name: totals
SELECT status, count(*), count(*) FILTER (WHERE ended >= ?1),
    coalesce(sum(ended - coalesce(started, created)) FILTER (WHERE ended >= ?1), 0)
FROM execution WHERE status >= 4 GROUP BY status
UNION ALL
SELECT status, count(*), 0, 0 FROM execution WHERE status < 4 GROUP BY status
