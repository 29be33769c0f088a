-- name: usage_add
INSERT INTO usage (kind, id, input, output, audio, cost) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (kind, id) DO UPDATE SET input = min(9000000000000000000, input + excluded.input), output = min(9000000000000000000, output + excluded.output),
    audio = min(9000000000000000000, audio + excluded.audio), cost = min(9000000000000000000, cost + excluded.cost)

-- name: usage_of
SELECT input, output, audio, cost FROM usage WHERE kind = ?1 AND id = ?2

-- name: usage_in
SELECT id, input, output, audio, cost FROM usage WHERE kind = ?1 AND id >= ?2 AND id < ?3 ORDER BY id LIMIT +?4

-- name: prune_ends
DELETE FROM usage WHERE kind = ?1 AND id IN (SELECT id FROM usage WHERE kind = ?1 AND id < ?2 ORDER BY id LIMIT +?3)

-- name: ended_in
SELECT * FROM (
    SELECT ended, ended - coalesce(started, ended), coalesce(workflow, ''), status, coalesce(progress ->> 'cost_micros', 0)
    FROM execution INDEXED BY execution_ended
    WHERE status >= 4 AND ended >= ?1 AND ended < ?2
    ORDER BY ended DESC
    LIMIT +?3
) ORDER BY 1
