package progress_test

import (
	"context"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/progress"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/sqlite"
)

// counting counts the transactions of a store.
type counting struct {
	store.Projects
	calls atomic.Int64
}

func (c *counting) ChangeProgress(ctx context.Context, list []store.ProgressChange) ([]store.ProgressResult, error) {
	c.calls.Add(1)
	return c.Projects.ChangeProgress(ctx, list)
}

func newTracker(t *testing.T, window time.Duration) (*progress.Tracker, *counting) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "store.db"), Synchronous: "normal"})
	if err != nil {
		t.Fatal(err)
	}
	c := &counting{Projects: s}
	x, err := progress.New(progress.Options{Store: c, Window: window})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return x, c
}

// project creates a project with a total, PROCESSING.
func project(t *testing.T, x *progress.Tracker, name string, total int64) {
	t.Helper()
	_, err := x.Create(t.Context(), name)
	if err == nil {
		_, err = x.FinishDiscovery(t.Context(), name, total)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestCountsAreSummed: a hundred workers of ten projects need few transactions, and each finish is told once.
func TestCountsAreSummed(t *testing.T) {
	x, s := newTracker(t, 100*time.Millisecond)
	for j := range 10 {
		project(t, x, strconv.Itoa(j), 100)
	}
	s.calls.Store(0)
	var completed atomic.Int64
	var all sync.WaitGroup
	for i := range 1000 {
		all.Go(func() {
			p, err := x.Add(t.Context(), store.Count{Project: strconv.Itoa(i % 10), Done: 1}, "")
			if err != nil {
				t.Error(err)
			}
			if p.Completed {
				completed.Add(1)
			}
		})
	}
	all.Wait()
	if n, told := s.calls.Load(), completed.Load(); n > 100 || told != 10 {
		t.Errorf("%d transactions, %d finishes told", n, told)
	}
	for j := range 10 {
		if p, err := x.Read(t.Context(), strconv.Itoa(j)); err != nil || p.Status != store.ProjectDone || p.Done != 100 || p.Source != "sqlite" {
			t.Errorf("%+v, %v", p, err)
		}
	}
}

// TestItemKeys: an item with a key counts once, also within one window.
func TestItemKeys(t *testing.T) {
	x, _ := newTracker(t, 20*time.Millisecond)
	project(t, x, "p", 100)
	var repeated atomic.Int64
	for range 2 {
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				p, err := x.Add(t.Context(), store.Count{Project: "p", Done: 1, Errors: 1}, strconv.Itoa(i%10))
				if err != nil {
					t.Error(err)
				}
				if p.Repeated {
					repeated.Add(1)
				}
			})
		}
		all.Wait()
	}
	p, err := x.Read(t.Context(), "p")
	if err != nil || p.Done != 10 || p.Errors != 10 || repeated.Load() != 30 {
		t.Errorf("%+v, %v, %d repeated", p, err, repeated.Load())
	}
}

// TestUnknownAmongKnown: an unknown project fails its own callers only.
func TestUnknownAmongKnown(t *testing.T) {
	x, _ := newTracker(t, 50*time.Millisecond)
	project(t, x, "p", 100)
	var all sync.WaitGroup
	all.Go(func() {
		if p, err := x.Add(t.Context(), store.Count{Project: "p", Done: 1}, ""); err != nil || p.Done != 1 || p.Percent != 1 {
			t.Errorf("%+v, %v", p, err)
		}
	})
	all.Go(func() {
		if p, err := x.Add(t.Context(), store.Count{Project: "nobody's", Done: 1}, ""); stepwell.CodeOf(err) != stepwell.CodeNotFound || p.Status != progress.NotFound {
			t.Errorf("%+v, %v", p, err)
		}
	})
	all.Wait()
	if p, err := x.Read(t.Context(), "nobody's"); err != nil || p.Status != progress.NotFound || p.Percent != 0 {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestCloseStoresWhatIsThere: counts that are being summed are stored, later ones refused.
func TestCloseStoresWhatIsThere(t *testing.T) {
	for range 100 {
		x, s := newTracker(t, time.Second)
		project(t, x, "p", 2)
		counted := make(chan error, 1)
		go func() {
			_, err := x.Add(t.Context(), store.Count{Project: "p", Done: 1}, "")
			counted <- err
		}()
		time.Sleep(20 * time.Millisecond) // long enough for most
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		err := <-counted
		if stepwell.CodeOf(err) == stepwell.CodeUnavailable {
			continue // it came after Close
		} else if err != nil {
			t.Fatal(err)
		}
		if list, err := s.Progress(t.Context(), []string{"p"}); err != nil || list[0].Done != 1 {
			t.Errorf("%+v, %v", list, err)
		}
		if _, err := x.Add(t.Context(), store.Count{Project: "p", Done: 1}, ""); stepwell.CodeOf(err) != stepwell.CodeUnavailable {
			t.Errorf("after the end: %v", err)
		}
		return
	}
	t.Fatal("Close was always first")
}

// TestBadCounts: what cannot be counted is refused before it spoils a window.
func TestBadCounts(t *testing.T) {
	x, _ := newTracker(t, time.Millisecond)
	for _, n := range []store.Count{{Project: "p", Done: -1}, {Project: "p", Done: 1, Errors: 2}, {Project: "", Done: 1}, {Project: "p\n", Done: 1}, {Project: "p", Done: 1 << 60}} {
		if _, err := x.Add(t.Context(), n, ""); stepwell.CodeOf(err) != stepwell.CodeInvalid {
			t.Errorf("%+v: %v", n, err)
		}
	}
	if _, err := x.SetStatus(t.Context(), "p", "almost done"); stepwell.CodeOf(err) != stepwell.CodeInvalid {
		t.Error(err)
	}
}
