package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/store"
)

// The load of `bench serve` (budpipeline §12): concurrent executions, each followed by a WebSocket client; requests a
// second; and schedules that fire every few seconds.
const (
	serveInFlight  = 100
	serveRequests  = 50 // a second
	serveSchedules = 100
	serveHeld      = 1000
	servePause     = 2 * time.Second // of servePipeline
)

// servePipeline is the pipeline of the load: four steps, of which one waits, so that executions overlap.
const servePipeline = `{"name":"bench-serve","steps":[
 {"id":"a","name":"a","action":"util.noop"},
 {"id":"pause","name":"pause","action":"util.wait","depends_on":["a"],"params":{"seconds":2}},
 {"id":"b","name":"b","action":"util.noop","depends_on":["pause"]},
 {"id":"c","name":"c","action":"util.noop","depends_on":["b"]}]}`

// serveResult is the result of a run of `bench serve`. Times are in ms.
type serveResult struct {
	Workload   string     `json:"workload"`
	Nodes      int        `json:"nodes"`
	Seconds    float64    `json:"seconds"`
	Executions int        `json:"executions"`
	Requests   int        `json:"requests"`
	Failures   int        `json:"failures"` // answers that were not 2xx, and executions that did not complete
	Start      percentile `json:"start"`    // from sending POST /execute to the first step's code
	Dispatch   percentile `json:"dispatch"` // from a step being queued to its code
	Status     percentile `json:"status"`   // from a step's end to a WebSocket client that has read of it
	API        percentile `json:"api"`      // a request, from sending it to its last byte
	Drift      percentile `json:"schedule_drift"`
	Firings    int        `json:"schedule_firings"`
	Held       int        `json:"held"` // executions that were under way at once, at the most
	RSS        float64    `json:"rss_mb"`
	Fsync      float64    `json:"fsync_p50_ms"`
}

// percentile is a distribution in ms.
type percentile struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func percentileOf(times []time.Duration) percentile {
	if len(times) == 0 {
		return percentile{}
	}
	slices.Sort(times)
	at := func(share int) float64 { return ms(times[min(len(times)-1, len(times)*share/100)]) }
	return percentile{at(50), at(95), at(99), ms(times[len(times)-1])}
}

// sample collects times from many goroutines.
type sample struct {
	mu    sync.Mutex
	times []time.Duration
}

func (s *sample) add(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times = append(s.times, d)
}

// serveLoad is the clients of one run.
type serveLoad struct {
	servers []*server
	turn    atomic.Int64
	began   time.Time
	stop    time.Time // nothing is begun after it

	sent     sync.Map // execution id → when POST /execute was sent
	seen     sync.Map // execution id + " " + step → when a WebSocket client read of its end
	api      sample
	failures atomic.Int64
	complain sync.Once
}

// serve starts this program as a server, puts load on it over HTTP, and reads from its database afterwards
// when everything happened.
func (b *bench) serve() error {
	return b.eachRun(func(db string) (row, error) { return b.serveOnce(db) })
}

// eachRun measures each run, on a database of its own where none is named, and prints it.
func (b *bench) eachRun(measure func(db string) (row, error)) error {
	for run := range b.Runs {
		r, err := measure(cmp.Or(b.Store, filepath.Join(b.dir, fmt.Sprintf("%d.db", run))))
		if err != nil {
			return err
		}
		if err := b.print(r); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) serveOnce(db string) (r *serveResult, err error) {
	ctx := b.ctx
	l := &serveLoad{began: time.Now()}
	l.servers, err = b.startServers(db, max(b.Nodes, 1))
	defer func() {
		for _, s := range l.servers {
			err = errors.Join(err, s.end())
		}
	}()
	if err != nil {
		return nil, err
	}
	r = &serveResult{Workload: "serve", Nodes: len(l.servers), Seconds: float64(b.n), Fsync: b.fsync}
	workflow, err := l.prepare(ctx)
	if err != nil {
		return nil, err
	}
	l.stop = time.Now().Add(time.Duration(b.n) * time.Second)
	l.run(ctx, workflow)
	for _, s := range l.servers {
		r.RSS = max(r.RSS, peakOf(strconv.Itoa(s.PID())))
	}
	if err := l.remove(ctx, workflow); err != nil {
		return nil, err
	}
	if r.Held, err = l.hold(ctx); err != nil {
		return nil, err
	}
	if err := l.collect(ctx, db, r); err != nil {
		return nil, err
	}
	r.Requests, r.API, r.Failures = len(l.api.times), percentileOf(l.api.times), r.Failures+int(l.failures.Load())
	return r, nil
}

// run keeps the executions and the requests going until the time is over.
func (l *serveLoad) run(ctx context.Context, workflow string) {
	var group sync.WaitGroup
	for i := range serveInFlight {
		group.Go(func() {
			time.Sleep(time.Duration(i) * servePause / serveInFlight) // so that they are not all at the same point
			for time.Now().Before(l.stop) && ctx.Err() == nil {
				l.execution(ctx, workflow)
			}
		})
	}
	group.Go(func() {
		tick := time.NewTicker(time.Second / serveRequests)
		defer tick.Stop()
		var requests sync.WaitGroup
		for n := 0; time.Now().Before(l.stop) && ctx.Err() == nil; n++ {
			<-tick.C
			requests.Go(func() { l.look(ctx, n) })
		}
		requests.Wait()
	})
	group.Wait()
}

// collect reads the times of events from the database.
func (l *serveLoad) collect(ctx context.Context, path string, r *serveResult) (err error) {
	db, err := app.OpenReader(ctx, path, slog.Default())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var start, dispatch, status, drift sample
	for before := ""; ; {
		list, err := db.Executions(ctx, store.Filter{Before: before, Limit: 1000})
		if err != nil {
			return err
		}
		for i := range list {
			x := &list[i]
			if before = x.ID; x.Created.Before(l.began) {
				continue // of another run
			}
			if x.Trigger == "scheduled" {
				if err := driftOf(x, &drift); err != nil {
					return err
				}
			}
			sent, ours := l.sent.Load(x.ID)
			if !ours {
				continue
			}
			r.Executions++
			if x.Status.String() != "completed" {
				r.Failures++
			}
			steps, err := db.Steps(ctx, x.No, store.StepFilter{})
			if err != nil {
				return err
			}
			for _, s := range steps {
				if s.Started == 0 || s.Queued == 0 {
					continue
				}
				dispatch.add(time.Duration(s.Started-s.Queued) * time.Microsecond)
				if s.Idx == 0 {
					start.add(time.UnixMicro(s.Started).Sub(sent.(time.Time)))
				}
				if at, watched := l.seen.Load(x.ID + " " + s.Key); watched && s.Ended > 0 {
					status.add(at.(time.Time).Sub(time.UnixMicro(s.Ended)))
				}
			}
		}
		if len(list) < 1000 || list[len(list)-1].Created.Before(l.began) {
			break
		}
	}
	r.Start, r.Dispatch, r.Status, r.Drift = percentileOf(start.times), percentileOf(dispatch.times), percentileOf(status.times), percentileOf(drift.times)
	r.Firings = len(drift.times)
	return nil
}

// driftOf is how long after its time a schedule's execution came into being.
func driftOf(x *store.Execution, drift *sample) error {
	var params struct {
		Trigger struct {
			At time.Time `json:"scheduled_at"`
		} `json:"_trigger"`
	}
	if err := json.Unmarshal(x.Params, &params); err != nil {
		return fmt.Errorf("params of %s: %w", x.ID, err)
	}
	if params.Trigger.At.IsZero() {
		return fmt.Errorf("execution %s of a schedule does not say when it was due", x.ID)
	}
	drift.add(x.Created.Sub(params.Trigger.At))
	return nil
}

func (r *serveResult) head() string { return "" }

func (r *serveResult) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "serve: %d servers, %.0f s, %d executions (%d at a time), %d requests beside them, %d failures, %d held at once, %.0f MB, fsync %.3f ms",
		r.Nodes, r.Seconds, r.Executions, serveInFlight, r.Requests, r.Failures, r.Held, r.RSS, r.Fsync)
	for _, row := range []struct {
		name string
		p    percentile
	}{{"start", r.Start}, {"dispatch", r.Dispatch}, {"status to a WebSocket", r.Status}, {"request", r.API}, {fmt.Sprintf("schedule drift (%d)", r.Firings), r.Drift}} {
		fmt.Fprintf(&b, "\n  %-24s p50 %8.2f   p95 %8.2f   p99 %8.2f   max %8.2f ms", row.name, row.p.P50, row.p.P95, row.p.P99, row.p.Max)
	}
	return b.String()
}
