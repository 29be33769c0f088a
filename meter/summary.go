package meter

import (
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// Summary are the figures of budpipeline §4.4. Those of the last day are of executions that ended in it.
type Summary struct {
	Executions struct {
		Total        int64 `json:"total"`
		Running      int64 `json:"running"`
		Completed24h int64 `json:"completed_24h"` // with failures or without
		Failed24h    int64 `json:"failed_24h"`    // timed out ones included
	} `json:"executions"`
	Workflows struct {
		AvgDurationMS int64   `json:"avg_duration_ms"` // of the executions that completed in the last day
		SuccessRate   float64 `json:"success_rate"`    // completed ÷ (completed + failed) of the last day, 1 when there were none
	} `json:"workflows"`
	Scheduler struct {
		ActiveJobs       int    `json:"active_jobs"`
		NextRunInSeconds *int64 `json:"next_run_in_seconds"` // null when nothing will fire
	} `json:"scheduler"`
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
	s.Executions.Completed24h = count(t.Since, stepwell.ExecutionCompleted, stepwell.ExecutionCompletedWithFailures)
	s.Executions.Failed24h = count(t.Since, stepwell.ExecutionFailed, stepwell.ExecutionTimedOut)
	s.Workflows.SuccessRate = 1
	if n := s.Executions.Completed24h + s.Executions.Failed24h; n > 0 {
		s.Workflows.SuccessRate = float64(s.Executions.Completed24h) / float64(n)
	}
	if t.Completed > 0 {
		s.Workflows.AvgDurationMS = (t.Durations / time.Duration(t.Completed)).Milliseconds()
	}
	if m.o.Upcoming != nil {
		var next time.Time
		if s.Scheduler.ActiveJobs, next = m.o.Upcoming(); !next.IsZero() {
			in := max(0, int64(time.Until(next).Round(time.Second)/time.Second))
			s.Scheduler.NextRunInSeconds = &in
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

// Metrics serves text for Prometheus to requests that accept text/plain or OpenMetrics, and Summary as JSON to all
// others. fail answers when the figures are unavailable.
func (m *Meter) Metrics(fail func(http.ResponseWriter, *http.Request, error)) http.Handler {
	text := m.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept")
		if WantsText(r.Header.Get("Accept")) {
			text.ServeHTTP(w, r)
			return
		}
		s, err := m.Summary(r.Context())
		if err != nil {
			fail(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s) // a client that has gone misses nothing
	})
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
