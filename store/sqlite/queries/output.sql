-- name: output_at
SELECT output FROM step WHERE execution = ? AND idx = ? AND status = 5

-- name: output_of
SELECT output FROM step WHERE execution = ? AND status = 5 AND rare IS NOT NULL AND rare ->> 'k' = ? AND rare ->> 'o' IS NULL
ORDER BY idx LIMIT 1
