package meter

import (
	"context"
	"mime"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// Summary are the figures of budpipeline §4.4. Those of the last day are of executions that ended in it.
type Summary struct {
	Executions Executions `json:"executions"`
	Workflows  Workflows  `json:"workflows"`
	Scheduler  Scheduler  `json:"scheduler"`
}

// Executions counts executions.
type Executions struct {
	Total     int64 `json:"total" doc:"That the store still has."`
	Running   int64 `json:"running"`
	Completed int64 `json:"completed_24h"` // with failures or without
	Failed    int64 `json:"failed_24h"`    // timed out ones included
}

// Workflows says how executions of the last 24 hours went.
type Workflows struct {
	AvgDuration int64   `json:"avg_duration_ms" doc:"Of those that completed."`
	SuccessRate float64 `json:"success_rate" minimum:"0" maximum:"1" doc:"Completed ones among those that completed or failed; 1 when there were none."`
}

// Scheduler are the scheduler's counts.
type Scheduler struct {
	Active int    `json:"active_jobs"`
	Next   *int64 `json:"next_run_in_seconds" doc:"Null when nothing is due any more."`
}

// How old the counts may be: they look at every execution, and a twentieth of a processor's time is enough for that.
const (
	summaryAge   = 5 * time.Second
	summaryShare = 20
)

// summary keeps the counts that were made last.
type summary struct {
	mu     sync.Mutex
	until  time.Time
	totals *store.Totals
}

// Summary returns the figures; counts may be a few seconds old. CodeUnavailable without Options.Totals.
func (m *Meter) Summary(ctx context.Context) (*Summary, error) {
	t, err := m.totals(ctx)
	if err != nil {
		return nil, err
	}
	var s Summary
	for _, n := range t.Executions {
		s.Executions.Total += n
	}
	count := func(from map[string]int64, statuses ...stepwell.ExecutionStatus) (n int64) {
		for _, status := range statuses {
			n += from[status.String()]
		}
		return n
	}
	s.Executions.Running = count(t.Executions, stepwell.ExecutionRunning, stepwell.ExecutionCancelling)
	s.Executions.Completed = count(t.Since, stepwell.ExecutionCompleted, stepwell.ExecutionCompletedWithFailures)
	s.Executions.Failed = count(t.Since, stepwell.ExecutionFailed, stepwell.ExecutionTimedOut)
	s.Workflows.SuccessRate = 1
	if n := s.Executions.Completed + s.Executions.Failed; n > 0 {
		s.Workflows.SuccessRate = float64(s.Executions.Completed) / float64(n)
	}
	if t.Completed > 0 {
		s.Workflows.AvgDuration = (t.Durations / time.Duration(t.Completed)).Milliseconds()
	}
	if m.o.Upcoming != nil {
		var next time.Time
		if s.Scheduler.Active, next = m.o.Upcoming(); !next.IsZero() {
			in := max(0, int64(time.Until(next).Round(time.Second)/time.Second))
			s.Scheduler.Next = &in
		}
	}
	return &s, nil
}

func (m *Meter) totals(ctx context.Context) (*store.Totals, error) {
	if m.o.Totals == nil {
		return nil, stepwell.Errorf(stepwell.CodeUnavailable, "", "executions are not counted here")
	}
	s := &m.summary
	s.mu.Lock()
	defer s.mu.Unlock()
	began := time.Now()
	if began.Before(s.until) {
		return s.totals, nil
	}
	t, err := m.o.Totals.Totals(ctx, began.Add(-24*time.Hour))
	if err == nil {
		s.totals, s.until = t, time.Now().Add(max(summaryAge, summaryShare*time.Since(began)))
	}
	return t, err
}

// WantsText reports whether an Accept header names a form of Prometheus before JSON.
func WantsText(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		kind, _, err := mime.ParseMediaType(part)
		switch {
		case err != nil:
		case kind == "application/json":
			return false
		case kind == "text/plain", kind == "application/openmetrics-text":
			return true
		}
	}
	return false
}
