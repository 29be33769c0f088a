package live

import (
	"context"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell/progress"
	"github.com/stepwell/stepwell/store"
)

// lateProjects have no progress for the first reads.
type lateProjects struct{ reads atomic.Int32 }

func (l *lateProjects) Read(_ context.Context, id string) (progress.Progress, error) {
	p := progress.Progress{ProjectState: store.ProjectState{Project: id, Status: progress.NotFound}}
	if l.reads.Add(1) > 2 {
		p.Status, p.Done, p.Total = store.ProjectDone, 3, 3
	}
	return p, nil
}

func (l *lateProjects) Event(context.Context, string) (*store.ProjectEvent, error) {
	if l.reads.Load() < 3 {
		return nil, nil
	}
	return &store.ProjectEvent{ID: "e1"}, nil
}

// TestNotFoundIsAState: a stream of a project without progress says so, once, and goes on when there is some.
func TestNotFoundIsAState(t *testing.T) {
	w := httptest.NewRecorder()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	Project(&lateProjects{}, "p", make(chan struct{}), Options{}).ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/", nil))
	got := w.Body.String()
	first, rest, _ := strings.Cut(got, "\n\n")
	if !strings.HasPrefix(first, "event: progress\n") || !strings.Contains(first, `"NOT_FOUND"`) || strings.Contains(rest, "NOT_FOUND") || !strings.Contains(rest, `"DONE"`) || !strings.Contains(rest, "id: e1\nevent: job.completed") {
		t.Errorf("%s", got)
	}
}
