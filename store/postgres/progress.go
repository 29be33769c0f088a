package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stepwell/stepwell/store"
)

// sqlCounts adds counts, which come with the times of their commits, and finishes the projects that they bring over the finish
// line, by the rule of store.ProjectProgress.Apply. The rows are locked in one order by all processes; the update sees them as the
// lock has found them.
const sqlCounts = `WITH u AS MATERIALIZED (
    SELECT project, sum(done)::bigint AS done, sum(errors)::bigint AS errors, max(at) AS at
    FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[]) AS u (project, done, errors, at) GROUP BY project
), l AS MATERIALIZED (
    SELECT p.project FROM progress p WHERE p.project IN (SELECT project FROM u) AND p.status <> '' ORDER BY p.project FOR UPDATE
), c AS (
    UPDATE progress p SET done = p.done + u.done, errors = p.errors + u.errors, touched = u.at,
        status = CASE WHEN ` + sqlFinishes + ` THEN 'DONE' ELSE p.status END,
        rev = CASE WHEN ` + sqlFinishes + ` THEN p.rev + 1 ELSE p.rev END,
        completed = CASE WHEN ` + sqlFinishes + ` THEN u.at ELSE p.completed END,
        finished = ` + sqlFinishes + `
    FROM u, (SELECT count(*) AS n FROM l) locked WHERE p.project = u.project AND p.status <> '' AND locked.n > 0
    RETURNING p.*, u.at
)
INSERT INTO outgoing (kind, execution, body, at)
SELECT '` + store.JobCompleted + `', '', json_build_object('event_id', event, 'timestamp', to_char(to_timestamp(0) AT TIME ZONE 'UTC' + at * interval '1 microsecond', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    'payload', json_build_object('project_id', project, 'total', total, 'done', done + other_done, 'errors', errors + other_errors))::text, at
FROM c WHERE finished ORDER BY project`

const sqlFinishes = `(p.completed IS NULL AND p.total > 0 AND p.done + p.other_done + u.done >= p.total AND p.status <> 'CRAWLING')`

// progress adds what a commit counts.
func (b *batch) progress(c *store.Commit) error {
	if len(c.Progress) == 0 {
		return nil
	}
	at, _, err := headOf(c)
	if err != nil {
		return err
	}
	for _, n := range c.Progress {
		row := b.counts.row()
		row[0].text(n.Project)
		row[1].int(n.Done)
		row[2].int(n.Errors)
		row[3].int(at)
	}
	return nil
}

// CreateProgress stores the progress of a new project durably; fresh is false when there is one: it is left alone.
func (s *Store) CreateProgress(ctx context.Context, project string) (fresh bool, err error) {
	if err := store.CheckProject(project); err != nil {
		return false, err
	}
	p := store.NewProjectProgress(project, s.o.Now())
	n, err := s.change(ctx, "create the progress of project "+project, `INSERT INTO progress (project, status, total, done, errors, other_done, other_errors, rev, epoch, event, touched)
VALUES ($1, $2, 0, 0, 0, 0, 0, $3, 0, $4, $5)
ON CONFLICT (project) DO UPDATE SET status = excluded.status, rev = excluded.rev, epoch = progress.epoch + 1, event = excluded.event, touched = excluded.touched, completed = NULL
WHERE progress.status = ''`, p.Project, p.Status, p.Rev, p.Event, p.Touched.UnixMicro())
	return n > 0 && err == nil, err
}

// DeleteProgress deletes the progress of a project. The row stays, without a status: a project that is created again under the
// name gets another epoch.
func (s *Store) DeleteProgress(ctx context.Context, project string) error {
	at := s.o.Now().UnixMicro()
	return s.transaction(ctx, "delete the progress of project "+project, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE progress SET status = '', total = 0, done = 0, errors = 0, other_done = 0, other_errors = 0, touched = $2, completed = $2
WHERE project = $1 AND status <> ''`, project, at)
		if err == nil {
			_, err = tx.Exec(ctx, `DELETE FROM progress_item WHERE project = $1`, project)
		}
		return err
	})
}

// ChangeProgress makes changes in their order, all in one durable transaction with the outbox entries of the projects that they
// finish.
func (s *Store) ChangeProgress(ctx context.Context, changes []store.ProgressChange) (out []store.ProgressResult, err error) {
	if err := ctx.Err(); err != nil || len(changes) == 0 {
		return nil, err
	}
	if err := store.CheckChanges(changes); err != nil {
		return nil, err
	}
	at := time.UnixMicro(s.o.Now().UnixMicro()).UTC()
	err = s.transaction(ctx, "change the progress of projects", func(tx pgx.Tx) error {
		out, err = changeProgress(ctx, tx, changes, at)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// changeProgress locks the projects in one order by all processes, then makes the changes.
func changeProgress(ctx context.Context, tx pgx.Tx, changes []store.ProgressChange, at time.Time) ([]store.ProgressResult, error) {
	rows, err := tx.Query(ctx, `SELECT `+progressColumns+` FROM progress WHERE project = ANY ($1) AND status <> '' ORDER BY project FOR UPDATE`, store.ChangedProjects(changes))
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, scanProgress)
	if err != nil {
		return nil, err
	}
	there := map[string]*store.ProjectProgress{}
	for i := range list {
		there[list[i].Project] = &list[i]
	}
	out, entries, err := store.ApplyChanges(there, changes, at,
		func(project string) error {
			_, err := tx.Exec(ctx, `DELETE FROM progress_item WHERE project = $1`, project)
			return err
		}, func(c *store.ProgressChange) (bool, error) {
			tag, err := tx.Exec(ctx, `INSERT INTO progress_item (project, key, at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, c.Project, encode(c.Key), at.UnixMicro())
			return tag.RowsAffected() > 0, err
		})
	if err != nil {
		return nil, err
	}
	b := &pgx.Batch{}
	for i := range list {
		p := &list[i]
		b.Queue(`UPDATE progress SET status = $2, total = $3, done = $4, errors = $5, other_done = $6, other_errors = $7, rev = $8, epoch = $9, event = $10, touched = $11, completed = $12
WHERE project = $1`, p.Project, p.Status, p.Total, p.Done-p.OtherDone, p.Errors-p.OtherErrors, p.OtherDone, p.OtherErrors, p.Rev, p.Epoch, p.Event, p.Touched.UnixMicro(), microsOrNull(p.Completed))
	}
	for i := range entries {
		e := &entries[i]
		b.Queue(`INSERT INTO outgoing (kind, execution, body, at) VALUES ($1, $2, $3, $4)`, e.Kind, e.Execution, jsonOrNull(e.Body), e.At.UnixMicro())
	}
	return out, tx.SendBatch(ctx, b).Close()
}

// microsOrNull is a time in µs; NULL for the zero time.
func microsOrNull(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	us := t.UnixMicro()
	return &us
}

const progressColumns = `project, status, total, done, errors, other_done, other_errors, rev, epoch, event, touched, completed`

func scanProgress(row pgx.CollectableRow) (p store.ProjectProgress, err error) {
	var touched, completed instant
	err = row.Scan(&p.Project, &p.Status, &p.Total, &p.Done, &p.Errors, &p.OtherDone, &p.OtherErrors, &p.Rev, &p.Epoch, &p.Event, &touched, &completed)
	p.Done += p.OtherDone
	p.Errors += p.OtherErrors
	p.Touched, p.Completed = touched.time(), completed.time()
	return p, err
}

// Progress reads projects, in order of their names.
func (s *Store) Progress(ctx context.Context, projects []string) ([]store.ProjectProgress, error) {
	return list(ctx, s, scanProgress, `SELECT `+progressColumns+` FROM progress WHERE project = ANY ($1) AND status <> '' ORDER BY project`, texts(projects))
}

// OpenProgress lists projects that have not finished, in order of their names.
func (s *Store) OpenProgress(ctx context.Context, since time.Time, after string, n int) ([]store.ProjectProgress, error) {
	return list(ctx, s, scanProgress, `SELECT `+progressColumns+` FROM progress WHERE completed IS NULL AND project > $1 AND touched >= $2 ORDER BY project LIMIT $3`,
		encode(after), since.UnixMicro(), store.Limit(n, 500, 10_000))
}
