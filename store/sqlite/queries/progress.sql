-- name: progress_create
INSERT INTO progress (project, status, total, done, errors, other_done, other_errors, rev, epoch, event, touched) VALUES (?, ?, 0, 0, 0, 0, 0, ?, 0, ?, ?)
ON CONFLICT (project) DO UPDATE SET status = excluded.status, rev = excluded.rev, epoch = progress.epoch + 1, event = excluded.event, touched = excluded.touched, completed = NULL
WHERE progress.status = ''

-- name: progress_delete
UPDATE progress SET status = '', total = 0, done = 0, errors = 0, other_done = 0, other_errors = 0, touched = ?2, completed = ?2
WHERE project = ?1 AND status <> ''

-- name: progress_read
SELECT project, status, total, done, errors, other_done, other_errors, rev, epoch, event, touched, completed
FROM json_each(?1) k CROSS JOIN progress p ON p.project = k.value AND p.status <> '' ORDER BY project

-- name: progress_open
SELECT project, status, total, done, errors, other_done, other_errors, rev, epoch, event, touched, completed
FROM progress WHERE completed IS NULL AND project > ?1 AND touched >= ?2 ORDER BY project LIMIT +?3

-- name: progress_write
UPDATE progress SET status = ?2, total = ?3, done = ?4, errors = ?5, other_done = ?6, other_errors = ?7, rev = ?8, epoch = ?9, event = ?10,
    touched = ?11, completed = ?12
WHERE project = ?1

-- name: progress_item_put
INSERT INTO progress_item (project, key, at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING

-- name: progress_item_forget
DELETE FROM progress_item WHERE project = ?
