package meter_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/meter"
	"github.com/stepwell/stepwell/store"
)

func TestExecutionsAndStepsAreCounted(t *testing.T) {
	m := meter.New(meter.Options{Version: "1.2.3"})
	play(t, m, func(string) {}, good(), bad())
	want(t, text(t, m),
		`stepwell_executions_started_total{pipeline="good",trigger="manual"} 1`,
		`stepwell_executions_ended_total{pipeline="good",status="completed"} 1`,
		`stepwell_executions_ended_total{pipeline="bad",status="failed"} 1`,
		`stepwell_execution_seconds_count{pipeline="good"} 1`,
		`stepwell_execution_start_seconds_count 2`,
		`stepwell_steps_ended_total{action="t.well",status="completed"} 1`,
		`stepwell_steps_ended_total{action="t.flaky",status="completed"} 1`,
		`stepwell_steps_ended_total{action="t.bad",status="failed"} 1`,
		`stepwell_steps_ended_total{action="none",status="skipped"} 1`,
		`stepwell_step_retries_total{action="t.flaky"} 1`,
		`stepwell_step_seconds_count{action="t.flaky"} 1`,
		`stepwell_step_dispatch_seconds_count 4`,
		`stepwell_steps_in_flight 0`,
		`stepwell_build_info{version="1.2.3"} 1`)
}

// TestLabelsAreBounded: invented names make no series.
func TestLabelsAreBounded(t *testing.T) {
	m := meter.New(meter.Options{MaxLabels: 3})
	for i := range 10 {
		m.Observe(&conductor.Update{Execution: &store.Execution{No: int64(i), Pipeline: fmt.Sprintf("p%d", i), Trigger: "manual", Status: stepwell.ExecutionRunning}})
	}
	for range 5 {
		m.Request("", fmt.Sprintf("M%p", t), 404, time.Millisecond, false)
	}
	want(t, text(t, m), `stepwell_executions_started_total{pipeline="p2",trigger="manual"} 1`, `stepwell_executions_started_total{pipeline="other",trigger="manual"} 7`,
		`stepwell_http_requests_total{method="other",route="other",status="404"} 5`)
}

// TestHeldAndRecovered: a start counts when the execution begins; a recovered execution is not counted.
func TestHeldAndRecovered(t *testing.T) {
	m := meter.New(meter.Options{})
	now := time.Now()
	x := &store.Execution{No: 1, Pipeline: "p", Trigger: "manual", Status: stepwell.ExecutionPending, Created: now}
	m.Observe(&conductor.Update{Execution: x})
	x.Status, x.Started = stepwell.ExecutionRunning, now.Add(3*time.Second)
	m.Observe(&conductor.Update{Execution: x})
	m.Observe(&conductor.Update{Execution: x})
	m.Observe(&conductor.Update{Execution: &store.Execution{No: 2, Pipeline: "p", Trigger: "manual", Status: stepwell.ExecutionRunning, Version: 7}})
	want(t, text(t, m), `stepwell_executions_started_total{pipeline="p",trigger="manual"} 1`, `stepwell_execution_start_seconds_sum 3`)
}

// refusing is a store that refuses every second commit; its other methods are never called.
type refusing struct {
	conductor.Store
	n int
}

func (r *refusing) Commit(context.Context, []store.Commit) error {
	if r.n++; r.n%2 == 0 {
		return errors.New("no")
	}
	return nil
}

func TestCommitsAreTimed(t *testing.T) {
	m := meter.New(meter.Options{})
	s := m.Timed(&refusing{})
	for i := range 4 {
		if err := s.Commit(t.Context(), make([]store.Commit, 30)); (err == nil) != (i%2 == 0) {
			t.Errorf("commit %d: %v", i, err)
		}
	}
	m.ScheduleLag(40 * time.Millisecond)
	want(t, text(t, m), `stepwell_commit_seconds_count 4`, `stepwell_commit_executions_sum 120`, `stepwell_commit_failures_total 2`,
		`stepwell_schedule_lag_seconds_bucket{le="0.025"} 0`, `stepwell_schedule_lag_seconds_bucket{le="0.05"} 1`)
}

func TestRequestsAreCounted(t *testing.T) {
	m := meter.New(meter.Options{})
	for _, streams := range []bool{false, false, true} {
		m.Request("GET /things/{id}", "GET", 200, time.Millisecond, streams)
	}
	m.Request("", "GET", 404, time.Millisecond, false)
	want(t, text(t, m), `stepwell_http_requests_total{method="GET",route="GET /things/{id}",status="200"} 3`,
		`stepwell_http_requests_total{method="GET",route="other",status="404"} 1`, `stepwell_http_request_seconds_count{route="GET /things/{id}"} 2`)
}

// counts is a store that notes how often it is asked.
type counts struct {
	totals store.Totals
	asked  int
	takes  time.Duration
	err    error
}

func (c *counts) Totals(context.Context, time.Time) (*store.Totals, error) {
	c.asked++
	time.Sleep(c.takes) // as long as the database is large
	return &c.totals, c.err
}

// TestSummaryOfMany: counting takes at most a twentieth of the time, however many executions there are.
func TestSummaryOfMany(t *testing.T) {
	for takes, want := range map[time.Duration]int{time.Millisecond: 12, 2 * time.Second: 2} {
		synctest.Test(t, func(t *testing.T) {
			c := &counts{takes: takes}
			m := meter.New(meter.Options{Totals: c})
			for range 60 {
				if _, err := m.Summary(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
			}
			if c.asked != want {
				t.Errorf("counted %d times in a minute when it takes %s, want %d", c.asked, takes, want)
			}
		})
	}
}

func TestSummary(t *testing.T) {
	c := &counts{totals: store.Totals{Executions: map[string]int64{"completed": 7, "failed": 2, "running": 3, "pending": 1, "cancelled": 1},
		Since: map[string]int64{"completed": 5, "completed_with_failures": 1, "failed": 1, "timed_out": 1, "cancelled": 1}, Completed: 5, Durations: 10 * time.Second}}
	m := meter.New(meter.Options{Totals: c, Upcoming: func() (int, time.Time) { return 4, time.Now().Add(90 * time.Second) }})
	for range 3 {
		sum, err := m.Summary(t.Context())
		got, _ := json.Marshal(sum)
		const want = `{"executions":{"total":14,"running":3,"completed_24h":6,"failed_24h":2},"workflows":{"avg_duration_ms":2000,"success_rate":0.75},"scheduler":{"active_jobs":4,"next_run_in_seconds":90}}`
		if err != nil || string(got) != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if c.asked != 1 {
		t.Errorf("the store was asked %d times", c.asked)
	}
	for accept, want := range map[string]bool{"text/plain;version=0.0.4;q=0.5,*/*;q=0.1": true, "application/json,text/plain": false, "*/*": false} {
		if meter.WantsText(accept) != want {
			t.Errorf("%s wants text: %v", accept, !want)
		}
	}
	none := meter.New(meter.Options{Totals: &counts{}})
	if s, err := none.Summary(t.Context()); err != nil || s.Workflows.SuccessRate != 1 || s.Scheduler.Next != nil {
		t.Errorf("without executions: %+v %v", s, err)
	}
	broken := meter.New(meter.Options{Totals: &counts{err: errors.New("away")}})
	if _, err := broken.Summary(t.Context()); err == nil {
		t.Error("a store that is unavailable gives figures")
	}
}

// stats stands for the parts that gauges ask.
type stats struct{}

func (stats) Stats() conductor.Stats { return conductor.Stats{Active: 5, Pending: 2, Running: 3} }
func (stats) Subscriptions() int     { return 9 }

// TestDashboard: every metric that the dashboard names exists, and is of the kind that it is used as.
func TestDashboard(t *testing.T) {
	m := meter.New(meter.Options{Conductor: stats{}, Streams: stats{}, QueueDepth: func() int { return 6 }, Upcoming: func() (int, time.Time) { return 1, time.Time{} }})
	play(t, m, func(string) {}, good(), bad())
	_ = m.Timed(&refusing{}).Commit(t.Context(), nil)
	m.ScheduleLag(0)
	m.Request("GET /x", "GET", 200, 0, false)
	m.Observe(&conductor.Update{Execution: &store.Execution{No: 1 << 40}, Breached: "expected"})
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, f := range families {
		name := f.GetName()
		known[name] = true
		if f.GetType().String() == "HISTOGRAM" {
			known[name+"_bucket"], known[name+"_sum"], known[name+"_count"] = true, true, true
			delete(known, name)
		}
	}
	raw, err := os.ReadFile("../docs/grafana-dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Title  string
		UID    string
		Panels []struct {
			ID      int
			Title   string
			Type    string
			Targets []struct{ Expr string }
			GridPos struct{ X, Y, W, H int }
		}
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	used, ids := map[string]bool{}, map[int]bool{}
	for _, p := range d.Panels {
		if p.Title == "" || ids[p.ID] || p.GridPos.W == 0 || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %d %q is not complete", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			names := regexp.MustCompile(`\b(stepwell|go|process)_[a-z_]+`).FindAllString(target.Expr, -1)
			if len(names) == 0 {
				t.Errorf("panel %q asks for nothing: %s", p.Title, target.Expr)
			}
			for _, name := range names {
				used[name] = true
				if !known[name] {
					t.Errorf("panel %q asks for %s, which there is not", p.Title, name)
				}
			}
		}
	}
	for name := range known {
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		if strings.HasPrefix(name, "stepwell_") && !used[name] && !used[base+"_bucket"] && !used[base+"_sum"] && !used[base+"_count"] {
			t.Errorf("no panel shows %s", name)
		}
	}
	if d.Title == "" || d.UID == "" || bytes.Contains(raw, []byte("\t")) {
		t.Error("the dashboard has no title or uid, or tabs")
	}
}
