// Package chaos runs servers and workers of this program on one PostgreSQL database, and kills, stops and freezes them, cuts their
// connections and stalls the database, in an order that a seed gives. Then it checks with SQL of its own that every
// execution has completed and every step has completed once.
package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/rueidis"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/redislink"
)

// Options say what is run and disturbed.
type Options struct {
	// DB is a PostgreSQL database of its own, as a URL.
	DB string
	// Queue is a Redis server, as a URL, in whose lists the steps are offered. Defaults to none.
	Queue string
	// For is how long executions are started and disturbed.
	For time.Duration
	// Executions ends it earlier, when so many have been started. 0: no limit.
	Executions int
	// Seed gives the order of the faults, their lengths and their pauses.
	Seed uint64
	// Nodes, Workers and InFlight are the servers, the workers in processes of their own, and the executions under way at once.
	Nodes, Workers, InFlight int
	// Pause is how long it is between two faults, on average.
	Pause time.Duration
	// Each makes rounds, 0: one for all: each fault in turn meets so many executions, for its full length, and the books are read after each.
	// For bounds a round then. Leases of workers are as short as those of servers.
	Each int
	// Faults are those of Faults, and of More, that happen. Defaults to all for which there are workers or a queue.
	Faults []string
	// More are faults that the caller makes, by name. Each is over when it returns.
	More map[string]func(context.Context) error
	// Said gets a line for each fault, and one every ten seconds. Defaults to none.
	Said io.Writer
}

// Result is what has been run, and what was wrong.
type Result struct {
	Seed       uint64         `json:"seed"`
	Seconds    float64        `json:"seconds"`
	Executions int            `json:"executions"`
	Steps      int            `json:"steps"`
	Faults     map[string]int `json:"faults"`
	// Rounds are those of Options.Each.
	Rounds []Round `json:"rounds,omitempty"`
	// Repeated counts requests that were sent again because a server was gone or could not answer.
	Repeated int64 `json:"repeated_requests"`
	// Ended counts processes that ended by themselves; after a freeze, a cut or a stall they may.
	Ended int `json:"ended_by_themselves"`
	// Wrong is what the books do not have as it should be.
	Wrong []string `json:"wrong"`
}

// Round is a fault and the executions that it met.
type Round struct {
	Fault      string  `json:"fault"`
	Times      int     `json:"times"`
	Seconds    float64 `json:"seconds"`
	Executions int     `json:"executions"`
	Steps      int     `json:"steps"`
}

// Text is the result for people.
func (r *Result) Text() string {
	var faults []string
	for _, name := range slices.Sorted(maps.Keys(r.Faults)) {
		faults = append(faults, fmt.Sprintf("%s %d", name, r.Faults[name]))
	}
	text := fmt.Sprintf("seed %d, %.0f s: %d executions with %d steps; faults: %s; %d requests repeated, %d processes ended by themselves\n",
		r.Seed, r.Seconds, r.Executions, r.Steps, strings.Join(faults, ", "), r.Repeated, r.Ended)
	for _, x := range r.Rounds {
		text += fmt.Sprintf("%-24s %d times, %5.1f s, %d executions with %d steps\n", x.Fault, x.Times, x.Seconds, x.Executions, x.Steps)
	}
	if len(r.Wrong) == 0 {
		return text + "every execution has completed, and every step once\n"
	}
	return text + strings.Join(r.Wrong, "\n") + "\n"
}

// maxWrong bounds what Wrong lists.
const maxWrong = 20

// patience is how long executions may take once nothing disturbs them any more.
const patience = 2 * time.Minute

// readingTime is how long the books may be read, beside the time in which they were written: millions of steps are many.
const readingTime = 10 * time.Minute

// trial is one call of Run.
type trial struct {
	Options
	name    string // of the pipeline, one for each round
	folder  string
	lease   time.Duration // of workers
	faults  map[string]func(*trial, context.Context) error
	db      *pgxpool.Pool
	redis   rueidis.Client // nil: none
	begun   time.Time
	next    atomic.Int64 // executions started or being started
	ended   atomic.Int64
	repeats atomic.Int64
	chance  *rand.Rand // of the faults
	nodes   []*member
	workers []*member

	mu       sync.Mutex
	result   Result
	excused  time.Time // until then processes may end by themselves
	stopping bool
}

// Run runs a trial. An error is one of the trial itself; what went wrong in what it tried stands in the result. CodeConflict for a
// database that others use.
func Run(ctx context.Context, o Options) (r *Result, err error) {
	if o.Said == nil {
		o.Said = io.Discard
	}
	all := maps.Clone(faults)
	for name, happen := range o.More {
		all[name] = func(t *trial, ctx context.Context) error {
			t.excuse()
			defer t.excuse()
			return happen(ctx)
		}
	}
	names := slices.Sorted(maps.Keys(all))
	if len(o.Faults) == 0 {
		o.Faults = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return o.lacks(name) != "" })
	}
	if o.Nodes < 1 || o.InFlight < 1 || o.Workers < 0 || o.Each < 0 || o.For <= 0 || o.Pause < time.Millisecond {
		return nil, stepwell.Invalid("", "nodes and executions in flight are at least 1, workers and those of a round 0, and the times are positive")
	}
	for _, f := range o.Faults {
		if all[f] == nil {
			return nil, stepwell.Invalid("use "+strings.Join(names, ", "), "unknown fault %q", f)
		}
		if what := o.lacks(f); what != "" {
			return nil, stepwell.Invalid("", "the fault %q needs %s", f, what)
		}
	}
	t := &trial{Options: o, lease: workerLease, faults: all, begun: time.Now(), chance: rand.New(rand.NewPCG(o.Seed, 1))}
	if o.Each > 0 {
		t.lease = nodeLease
	}
	t.result = Result{Seed: o.Seed, Faults: map[string]int{}, Wrong: []string{}}
	if t.folder, err = os.MkdirTemp("", "stepwell-chaos-"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(t.folder)
	if t.db, err = pgxpool.New(ctx, o.DB); err != nil {
		return nil, stepwell.Invalid("give a database of PostgreSQL, such as postgres://user@host/name", "%v", err)
	}
	defer t.db.Close()
	if err := t.alone(ctx); err != nil {
		return nil, err
	}
	if o.Queue != "" {
		client, err := redislink.Parse(o.Queue, "stepwell-chaos", workerLease)
		if err == nil {
			t.redis, err = rueidis.NewClient(client)
		}
		if err != nil {
			return nil, err
		}
		defer t.redis.Close()
	}
	t.say("seed %d", o.Seed)
	if err := t.run(ctx); err != nil {
		return nil, err
	}
	return &t.result, nil
}

// lacks says what a fault needs that is not there.
func (o *Options) lacks(fault string) string {
	switch {
	case strings.HasPrefix(fault, "worker-") && o.Workers == 0:
		return "workers"
	case strings.HasPrefix(fault, "queue-") && o.Queue == "":
		return "a queue"
	}
	return ""
}

// run starts the processes, and has the rounds happen to them.
func (t *trial) run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, t.end()) }()
	if err := t.begin(ctx); err != nil {
		return err
	}
	if t.Each == 0 {
		err = t.round(ctx, t.Faults)
	}
	for i := range t.Faults {
		if t.Each > 0 && err == nil && len(t.result.Wrong) == 0 {
			err = t.round(ctx, t.Faults[i:i+1])
		}
	}
	t.result.Seconds, t.result.Repeated = time.Since(t.begun).Seconds(), t.repeats.Load()
	return errors.Join(err, ctx.Err())
}

// round disturbs the processes while executions run, waits for the end, and reads the books.
func (t *trial) round(ctx context.Context, faults []string) error {
	begun := time.Now()
	t.name = fmt.Sprintf("%s%d-%d-%d", pipelinePrefix, t.Seed, t.begun.Unix(), len(t.result.Rounds))
	t.next.Store(0)
	t.ended.Store(0)
	if err := t.store(ctx); err != nil {
		return err
	}
	working, stop := context.WithTimeout(ctx, t.For+patience)
	defer stop()
	disturbing, calm := context.WithTimeout(ctx, t.For)
	defer calm()
	var helpers, clients sync.WaitGroup
	helpers.Go(func() { t.approve(working) })
	helpers.Go(func() { t.tell(working) })
	disturbed := make(chan struct{})
	go func() { defer close(disturbed); t.disturb(disturbing, faults) }()
	for range t.InFlight {
		clients.Go(func() { t.work(working, disturbing) })
	}
	clients.Wait()
	calm()
	<-disturbed
	stop()
	helpers.Wait()
	t.say("reading the books")
	reading, stop := context.WithTimeout(ctx, t.For+readingTime)
	defer stop()
	executions, err := t.check(reading)
	if t.result.Executions, t.result.Steps = t.result.Executions+executions, t.result.Steps+executions*stepsEach; t.Each > 0 {
		r := Round{faults[0], t.result.Faults[faults[0]], time.Since(begun).Seconds(), executions, executions * stepsEach}
		t.result.Rounds = append(t.result.Rounds, r)
		t.say("%s, %d times: %d executions in %.1f s", r.Fault, r.Times, r.Executions, r.Seconds)
	}
	return err
}

func (t *trial) wrong(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.result.Wrong) < maxWrong {
		t.result.Wrong = append(t.result.Wrong, fmt.Sprintf(format, args...))
	}
}

// say writes a line with the time since the beginning.
func (t *trial) say(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = fmt.Fprintf(t.Said, "%7.1f s  %s\n", time.Since(t.begun).Seconds(), fmt.Sprintf(format, args...)) // for people only
}

// tell says every ten seconds how far it is.
func (t *trial) tell(ctx context.Context) {
	every := time.NewTicker(10 * time.Second)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			t.say("%d executions have ended, %d are under way, %d requests were repeated", t.ended.Load(), t.next.Load()-t.ended.Load(), t.repeats.Load())
		}
	}
}
