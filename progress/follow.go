package progress

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stepwell/stepwell/store"
)

const (
	// page is how many projects are read from the store and written to the state server at once.
	page = 500
	// few is how many projects are compared in one go: what compares a thousand at once holds up every read meanwhile.
	few = 50
	// maxFollowed bounds the projects whose counts are compared. Of more, the others are compared when the server is back.
	maxFollowed = 10_000
)

// follower keeps store and state server alike: it writes what the server misses and takes over what other programs count.
type follower struct {
	o     *Options
	woken chan struct{}

	// writing is held from what the store is asked until the state server has that, and while a project is created or deleted, so that
	// no comparison brings one back that was deleted meanwhile. Other nodes' comparisons may: their next one removes it.
	writing sync.Mutex

	mu   sync.Mutex
	open map[string]bool // projects that were touched here and have not finished; true: changed since the last comparison
}

func (f *follower) init(o *Options) {
	f.o, f.woken, f.open = o, make(chan struct{}, 1), map[string]bool{}
}

// wake has the projects written soon.
func (f *follower) wake(counts []store.Count) {
	f.mu.Lock()
	for i := range counts {
		f.add(counts[i].Project, true)
	}
	f.mu.Unlock()
	select {
	case f.woken <- struct{}{}:
	default:
	}
}

// add follows a project. The caller holds the lock.
func (f *follower) add(project string, changed bool) {
	if _, there := f.open[project]; !there && len(f.open) >= maxFollowed {
		for other := range f.open { // any
			delete(f.open, other)
			break
		}
	}
	f.open[project] = changed || f.open[project]
}

// changed are the projects that have changed since the last comparison, sorted.
func (f *follower) changed() (list []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for project, changed := range f.open {
		if changed {
			list = append(list, project)
			f.open[project] = false
		}
	}
	slices.Sort(list)
	return list
}

// followed are all projects that are followed, sorted.
func (f *follower) followed() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.open))
}

// run compares until its context ends: what has changed at once, and all once in an interval, over half of which they are spread.
func (f *follower) run(ctx context.Context) {
	tick := time.NewTicker(f.o.Interval)
	defer tick.Stop()
	seen := int64(-1)
	var all []string
	for pause := time.Duration(0); ; {
		generation, err := f.o.State.Connected(ctx)
		switch {
		case err != nil: // it has logged that; all is compared when it is back
			seen, all = -1, nil
		case generation != seen:
			if f.rebuild(ctx) == nil {
				seen = generation
			}
		default:
			some := all[:min(len(all), few)]
			all = all[len(some):]
			f.compare(ctx, append(f.changed(), some...))
		}
		var next <-chan time.Time
		if len(all) > 0 {
			next = time.After(pause)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if len(all) == 0 {
				all = f.followed()
				pause = f.o.Interval / 2 / time.Duration(len(all)/few+1)
			}
		case <-next:
		case <-f.woken:
			time.Sleep(f.o.Window)
		}
	}
}

// rebuild writes all projects that have not finished and were changed within Options.Age, and takes over what others have counted.
func (f *follower) rebuild(ctx context.Context) error {
	after, count := "", 0
	for {
		f.writing.Lock()
		list, err := f.o.Store.OpenProgress(ctx, f.o.Now().Add(-f.o.Age), after, page)
		if err == nil {
			_, err = f.merge(ctx, "rebuild", list, true)
		}
		f.writing.Unlock()
		if err != nil {
			return err
		}
		count += len(list)
		if len(list) < page {
			break
		}
		after = list[len(list)-1].Project
	}
	f.compare(ctx, f.followed())
	f.o.Log.InfoContext(ctx, "the state server has the progress of all projects", "server", f.o.State.Name(), "projects", count)
	return nil
}

// compare writes projects as the store has them.
func (f *follower) compare(ctx context.Context, names []string) {
	for some := range slices.Chunk(names, page) {
		f.writing.Lock()
		list, err := f.o.Store.Progress(ctx, some)
		if err == nil {
			err = f.forget(ctx, some, list)
		} else {
			f.again(some)
		}
		if err == nil && len(list) > 0 {
			_, err = f.merge(ctx, "compare", list, false)
		}
		f.writing.Unlock()
		if err != nil && ctx.Err() == nil {
			f.o.Log.DebugContext(ctx, "the progress of projects is compared later", "error", err)
		}
	}
}

// forget removes projects that the store no longer has from the state server.
func (f *follower) forget(ctx context.Context, named []string, list []store.ProjectProgress) error {
	if len(list) == len(named) {
		return nil
	}
	there := names(list)
	gone := slices.DeleteFunc(slices.Clone(named), func(name string) bool { return slices.Contains(there, name) })
	if err := f.o.State.Forget(ctx, gone); err != nil {
		f.again(named)
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range gone {
		if !f.open[name] {
			delete(f.open, name)
		}
	}
	return nil
}

// again has projects compared later.
func (f *follower) again(names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range names {
		f.add(name, true)
	}
}

// merge writes projects to the state server and takes over the counts of other programs, which may finish some: those results
// are in the store, and Finished is set.
func (f *follower) merge(ctx context.Context, op string, list []store.ProjectProgress, touch bool) (map[string]*store.ProgressResult, error) {
	held, err := f.o.State.Merge(ctx, op, list, touch)
	if err != nil {
		f.again(names(list))
		return nil, err
	}
	out := make(map[string]*store.ProgressResult, len(list))
	var raise []store.ProgressChange
	for i := range list {
		p, h := &list[i], &held[i]
		out[p.Project] = &store.ProgressResult{ProjectProgress: *p}
		if h.Epoch == p.Epoch && (h.OtherDone > p.OtherDone || h.OtherErrors > p.OtherErrors) {
			raise = append(raise, store.ProgressChange{Count: store.Count{Project: p.Project}, OtherDone: h.OtherDone, OtherErrors: h.OtherErrors, Epoch: h.Epoch})
		}
	}
	if raise != nil {
		if err := f.takeOver(ctx, op, raise, out); err != nil {
			f.again(names(list))
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, p := range out {
		if p.Completed.IsZero() {
			f.add(name, false)
		} else if !f.open[name] {
			delete(f.open, name)
		}
	}
	return out, nil
}

// takeOver stores the counts of other programs.
func (f *follower) takeOver(ctx context.Context, op string, raise []store.ProgressChange, out map[string]*store.ProgressResult) error {
	results, err := f.o.Store.ChangeProgress(ctx, raise)
	if err != nil {
		return err
	}
	for i := range results {
		if results[i].Status != "" {
			out[results[i].Project] = &results[i]
		}
	}
	_, err = f.o.State.Merge(ctx, op, last(results), true)
	return err
}

func names(list []store.ProjectProgress) (names []string) {
	for i := range list {
		names = append(names, list[i].Project)
	}
	return names
}

// LevelCritical is the level of log lines that somebody has to be woken for.
const LevelCritical = slog.LevelError + 4
