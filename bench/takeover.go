package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/store"
)

// The pipeline of `bench takeover`: its steps take a moment each, one after the other, for several seconds.
const (
	takeoverSteps = 24
	takeoverPause = 250 * time.Millisecond
	takeoverAfter = 2 * time.Second // the executions run for so long before the server is killed
)

// takeoverResult is the result of a run of `bench takeover`. Times are in ms since the kill.
type takeoverResult struct {
	Workload   string     `json:"workload"`
	Nodes      int        `json:"nodes"`
	Executions int        `json:"executions"` // that were under way
	First      float64    `json:"first_ms"`   // until the first step of any of them has ended elsewhere
	Each       percentile `json:"each"`       // until the first step of each
	Fsync      float64    `json:"fsync_p50_ms"`
}

func (r *takeoverResult) head() string { return "" }

func (r *takeoverResult) text() string {
	return fmt.Sprintf("takeover: %d executions of a killed server, %d servers are left; the first step ended %.0f ms after the kill; of each execution p50 %.0f, p99 %.0f, max %.0f ms",
		r.Executions, r.Nodes-1, r.First, r.Each.P50, r.Each.P99, r.Each.Max)
}

// takeover kills a server with n executions under way, and reads from the database when they went on.
func (b *bench) takeover() error {
	if !b.shared() || b.Nodes == 1 {
		return stepwell.Invalid("", "takeover needs --store postgres://… and two servers at least (--nodes 2)")
	}
	return b.eachRun(func(db string) (row, error) { return b.takeoverOnce(db) })
}

func (b *bench) takeoverOnce(db string) (r *takeoverResult, err error) {
	l := &serveLoad{}
	l.servers, err = b.startServers(db, cmp.Or(b.Nodes, 2))
	defer func() {
		for _, s := range l.servers {
			err = errors.Join(err, s.end())
		}
	}()
	if err != nil {
		return nil, err
	}
	r = &takeoverResult{Workload: "takeover", Nodes: len(l.servers), Executions: b.n, Fsync: b.fsync}
	victim := l.servers[0]
	ids, err := startTakeover(b.ctx, victim, b.n)
	if err == nil {
		err = action.Pause(b.ctx, takeoverAfter)
	}
	if err != nil {
		return nil, err
	}
	killed := time.Now()
	victim.Kill()
	l.servers = l.servers[1:]
	if err := l.followAll(b.ctx, ids); err != nil {
		return nil, err
	}
	times, err := firstEnds(b.ctx, db, ids, killed)
	if err == nil {
		r.First, r.Each = ms(slices.Min(times)), percentileOf(times)
	}
	return r, err
}

// startTakeover starts n executions on a server.
func startTakeover(ctx context.Context, s *server, n int) (ids []string, err error) {
	var doc strings.Builder
	for i := range takeoverSteps {
		fmt.Fprintf(&doc, `{"id":"s%d","name":"s%[1]d","action":"util.wait","params":{"seconds":%g}`, i, takeoverPause.Seconds())
		if i > 0 {
			fmt.Fprintf(&doc, `,"depends_on":["s%d"]`, i-1)
		}
		doc.WriteString("},")
	}
	body := `{"workflow_definition":{"name":"bench-takeover","steps":[` + strings.TrimSuffix(doc.String(), ",") + `]},"params":{}}`
	for range n {
		var x started
		if err := s.call(ctx, http.MethodPost, "/execute", body, &x); err != nil {
			return nil, err
		}
		ids = append(ids, x.ID)
	}
	return ids, nil
}

// followAll returns when all executions have ended.
func (l *serveLoad) followAll(ctx context.Context, ids []string) error {
	var group sync.WaitGroup
	errs := make([]error, len(ids))
	for i, id := range ids {
		group.Go(func() { errs[i] = l.follow(ctx, id) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// firstEnds are the times from a moment to the first end of a step of each execution behind it.
func firstEnds(ctx context.Context, path string, ids []string, from time.Time) (times []time.Duration, err error) {
	db, err := app.OpenReader(ctx, path, slog.Default())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, id := range ids {
		x, err := db.Execution(ctx, id)
		if err != nil {
			return nil, err
		}
		steps, err := db.Steps(ctx, x.No, store.StepFilter{})
		if err != nil {
			return nil, err
		}
		first := time.Duration(0)
		for i := range steps {
			if after := time.UnixMicro(steps[i].Ended).Sub(from); after > 0 && (first == 0 || after < first) {
				first = after
			}
		}
		if x.Status.String() != "completed" || first == 0 {
			return nil, fmt.Errorf("execution %s is %s, and no step of it ended after the kill", id, x.Status)
		}
		times = append(times, first)
	}
	return times, nil
}
