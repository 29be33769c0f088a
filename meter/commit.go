package meter

import (
	"context"
	"time"

	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/store"
)

// Timed wraps a conductor's store and measures its commits.
func (m *Meter) Timed(s conductor.Store) conductor.Store { return &timed{Store: s, m: &m.m} }

type timed struct {
	conductor.Store
	m *metrics
}

// Commit implements store.Committer.
func (t *timed) Commit(ctx context.Context, commits []store.Commit) error {
	began := time.Now()
	err := t.Store.Commit(ctx, commits)
	t.m.commitTime.Observe(time.Since(began).Seconds())
	t.m.commitSize.Observe(float64(len(commits)))
	if err != nil {
		t.m.commitFailures.Inc()
	}
	return err
}
