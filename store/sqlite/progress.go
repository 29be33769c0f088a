package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// CreateProgress stores the progress of a new project durably; fresh is false when there is one: it is left alone.
func (s *Store) CreateProgress(ctx context.Context, project string) (fresh bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if err := store.CheckProject(project); err != nil {
		return false, err
	}
	p := store.NewProjectProgress(project, s.now())
	err = s.transaction("create the progress of project "+project, func(w *writer) error {
		n, err := w.change("progress_create", p.Project, p.Status, p.Rev, p.Event, p.Touched.UnixMicro())
		fresh = n > 0
		return err
	})
	return fresh && err == nil, err
}

// DeleteProgress deletes the progress of a project. The row stays, without a status: a project that is created again under the
// name gets another epoch.
func (s *Store) DeleteProgress(ctx context.Context, project string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	at := s.now().UnixMicro()
	return s.transaction("delete the progress of project "+project, func(w *writer) error {
		return errors.Join(w.run("progress_delete", project, at), w.run("progress_item_forget", project))
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
	at := s.now().UTC().Truncate(time.Microsecond)
	err = s.transaction("change the progress of projects", func(w *writer) error {
		out, err = w.progress(changes, at)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// progress makes changes within a transaction.
func (w *writer) progress(changes []store.ProgressChange, at time.Time) ([]store.ProgressResult, error) {
	var list []store.ProjectProgress
	if err := eachRow(context.Background(), w.conn, into(&list, scanProgress), w.queries["progress_read"], jsonList(store.ChangedProjects(changes))); err != nil {
		return nil, err
	}
	there := map[string]*store.ProjectProgress{}
	for i := range list {
		there[list[i].Project] = &list[i]
	}
	out, entries, err := store.ApplyChanges(there, changes, at,
		func(project string) error { return w.run("progress_item_forget", project) },
		func(c *store.ProgressChange) (bool, error) {
			n, err := w.change("progress_item_put", c.Project, c.Key, at.UnixMicro())
			return n > 0, err
		})
	if err != nil {
		return nil, err
	}
	for i := range list {
		p := &list[i]
		if err := w.run("progress_write", p.Project, p.Status, p.Total, p.Done-p.OtherDone, p.Errors-p.OtherErrors, p.OtherDone, p.OtherErrors, p.Rev, p.Epoch, p.Event,
			p.Touched.UnixMicro(), micros(p.Completed)); err != nil {
			return nil, err
		}
	}
	for i := range entries {
		e := &entries[i]
		if err := w.run("outgoing_put", e.Kind, e.Execution, blob(e.Body), e.At.UnixMicro()); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// counts adds what a commit counts.
func (w *writer) counts(c *store.Commit) error {
	if len(c.Progress) == 0 {
		return nil
	}
	b, err := engine.DecodeBatch(c.Version, c.Log)
	if err != nil {
		return err
	}
	changes := make([]store.ProgressChange, len(c.Progress))
	for i := range c.Progress {
		changes[i].Count = c.Progress[i]
	}
	_, err = w.progress(changes, time.UnixMicro(b.At).UTC())
	return err
}

// Progress reads projects, in order of their names.
func (s *Store) Progress(ctx context.Context, projects []string) ([]store.ProjectProgress, error) {
	return list(ctx, s, scanProgress, s.sql["progress_read"], jsonList(projects))
}

// OpenProgress lists projects that have not finished, in order of their names.
func (s *Store) OpenProgress(ctx context.Context, since time.Time, after string, n int) ([]store.ProjectProgress, error) {
	return list(ctx, s, scanProgress, s.sql["progress_open"], after, since.UnixMicro(), store.Limit(n, 500, 10_000))
}

func scanProgress(rows *sql.Rows, p *store.ProjectProgress) error {
	var touched, completed sql.NullInt64
	err := rows.Scan(&p.Project, &p.Status, &p.Total, &p.Done, &p.Errors, &p.OtherDone, &p.OtherErrors, &p.Rev, &p.Epoch, &p.Event, &touched, &completed)
	p.Done += p.OtherDone
	p.Errors += p.OtherErrors
	p.Touched, p.Completed = instant(touched), instant(completed)
	return err
}
