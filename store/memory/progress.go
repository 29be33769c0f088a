package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/stepwell/stepwell/store"
)

// CreateProgress implements store.Projects.
func (s *Store) CreateProgress(ctx context.Context, project string) (fresh bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if err := store.CheckProject(project); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.projects[project] != nil {
		return false, nil
	}
	p := store.NewProjectProgress(project, micros(s.now()))
	if epoch, ok := s.deleted[project]; ok {
		p.Epoch = epoch + 1
	}
	s.projects[project] = &p
	return true, nil
}

// DeleteProgress implements store.Projects.
func (s *Store) DeleteProgress(ctx context.Context, project string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.projects[project]; p != nil {
		s.deleted[project] = p.Epoch
	}
	delete(s.projects, project)
	delete(s.items, project)
	return nil
}

// ChangeProgress implements store.Projects.
func (s *Store) ChangeProgress(ctx context.Context, changes []store.ProgressChange) ([]store.ProgressResult, error) {
	if err := ctx.Err(); err != nil || len(changes) == 0 {
		return nil, err
	}
	if err := store.CheckChanges(changes); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.change(changes, micros(s.now()))
}

// change makes changes. It cannot fail halfway: no function that it hands on does.
func (s *Store) change(changes []store.ProgressChange, at time.Time) ([]store.ProgressResult, error) {
	out, entries, err := store.ApplyChanges(s.projects, changes, at,
		func(project string) error {
			delete(s.items, project)
			return nil
		},
		func(c *store.ProgressChange) (bool, error) {
			if _, ok := s.items[c.Project][c.Key]; ok {
				return false, nil
			}
			if s.items[c.Project] == nil {
				s.items[c.Project] = map[string]int64{}
			}
			s.items[c.Project][c.Key] = at.UnixMicro()
			return true, nil
		})
	for _, e := range entries {
		s.out(e)
	}
	return out, err
}

// Progress implements store.Projects.
func (s *Store) Progress(_ context.Context, projects []string) (out []store.ProjectProgress, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	names := slices.Clone(projects)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if p := s.projects[name]; p != nil {
			out = append(out, *p)
		}
	}
	return out, nil
}

// OpenProgress implements store.Projects.
func (s *Store) OpenProgress(_ context.Context, since time.Time, after string, limit int) (out []store.ProjectProgress, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for name, p := range s.projects {
		if p.Completed.IsZero() && name > after && !p.Touched.Before(micros(since)) {
			out = append(out, *p)
		}
	}
	slices.SortFunc(out, func(a, b store.ProjectProgress) int { return cmp.Compare(a.Project, b.Project) })
	return out[:min(len(out), store.Limit(limit, 500, 10_000))], nil
}
