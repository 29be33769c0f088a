package trigger_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/sqlite"
	"github.com/stepwell/stepwell/trigger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ledger stands for everything behind a launch: what it has taken in survives the death of a process, as in the store,
// and its executions end when a test says so.
type ledger struct {
	mu       sync.Mutex
	launches []pipeline.Launch // that made an execution
	ids      []string
	keys     map[string]string
	rows     map[string]*store.Execution
	refuse   func(pipeline.Launch) error
	instant  bool // executions end at once
}

func newLedger() *ledger {
	return &ledger{keys: map[string]string{}, rows: map[string]*store.Execution{}}
}

func (l *ledger) Launch(_ context.Context, in pipeline.Launch) (*pipeline.Launched, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id := l.keys[in.Key]; id != "" && in.Key != "" {
		return &pipeline.Launched{Execution: id}, nil
	}
	if l.refuse != nil {
		if err := l.refuse(in); err != nil {
			return nil, err
		}
	}
	id := fmt.Sprintf("x%d", len(l.launches)+1)
	l.launches, l.ids, l.keys[in.Key] = append(l.launches, in), append(l.ids, id), id
	l.rows[id] = &store.Execution{ID: id, Status: stepwell.ExecutionRunning, Origin: store.Origin{Job: in.Job}}
	if l.instant {
		l.rows[id].Status = stepwell.ExecutionCompleted
	}
	return &pipeline.Launched{Execution: id, Fresh: true}, nil
}

func (l *ledger) Execution(_ context.Context, id string) (*store.Execution, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x := l.rows[id]; x != nil {
		copied := *x
		return &copied, nil
	}
	return nil, &stepwell.Error{Code: stepwell.CodeNotFound, Message: "there is no execution " + id}
}

func (l *ledger) Cancel(_ context.Context, id, _ string) error {
	return l.end(id, stepwell.ExecutionCancelled)
}

func (l *ledger) StartKey(_ context.Context, key string) (*store.StartKey, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id := l.keys[key]; id != "" {
		return &store.StartKey{Key: key, Execution: id}, nil
	}
	return nil, &stepwell.Error{Code: stepwell.CodeNotFound, Message: "nothing was started under " + key}
}

func (l *ledger) end(id string, status stepwell.ExecutionStatus) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows[id].Status = status
	return nil
}

// all are the starts that made an execution, and the ids of those.
func (l *ledger) all() ([]pipeline.Launch, []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.launches), slices.Clone(l.ids)
}

// first is the first of them.
func (l *ledger) first() pipeline.Launch {
	launches, _ := l.all()
	return launches[0]
}

// tell notes that an end is told, and says whether it is the first time.
func (l *ledger) tell(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.rows[id].Ended.IsZero()
	l.rows[id].Ended = time.Now()
	return first
}

// refusing makes starts fail; nil lets them through again.
func (l *ledger) refusing(f func(pipeline.Launch) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse = f
}

// times are the times for which a job was started, in order of the starts.
func (l *ledger) times(job string) (list []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, in := range l.launches {
		about := in.Outside.About
		if at, ok := about["scheduled_at"].(string); in.Job == job && ok {
			list = append(list, at)
		}
	}
	return list
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.launches)
}

// rig is a store and one process after another on it.
type rig struct {
	t      *testing.T
	store  *sqlite.Store
	ledger *ledger
	log    *slog.Logger
	*trigger.Schedules
	stop func()
}

// process says what of a process is not as usual.
type process struct {
	objects  store.Objects    // Defaults to the store
	launcher trigger.Launcher // Defaults to the ledger
	options  trigger.Options
	idle     bool // it does not run: what is due waits
}

// bubble runs a test in a world of its own time, which begins at midnight, UTC, on 1 January 2000.
func bubble(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	bubbleIn(t, filepath.Join(t.TempDir(), "trigger.db"), f)
}

func bubbleIn(t *testing.T, file string, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, ledger: newLedger(), log: slog.New(slog.DiscardHandler)}
		var err error
		r.store, err = sqlite.Open(context.Background(), sqlite.Options{Path: file, Exclusive: true, Synchronous: "normal"})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			r.die()
			if err := r.store.Close(); err != nil {
				t.Error(err)
			}
		}()
		r.boot(process{})
		f(t, r)
	})
}

// boot starts a process.
func (r *rig) boot(p process) {
	r.t.Helper()
	if p.objects == nil {
		p.objects = r.store
	}
	if p.launcher == nil {
		p.launcher = r.ledger
	}
	o := p.options
	o.Objects, o.Launcher, o.Executions, o.Canceler, o.Keys, o.Log = p.objects, p.launcher, r.ledger, r.ledger, r.ledger, r.log
	s, err := trigger.New(r.t.Context(), o)
	if err != nil {
		r.t.Fatal(err)
	}
	if r.Schedules = s; p.idle {
		r.stop = func() {}
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
	})
}

// die ends the process without a word to anybody.
func (r *rig) die() { r.stop() }

// job stores a job that runs the action util.noop.
func (r *rig) job(id string, timing trigger.Timing, more func(*trigger.Job)) *trigger.Status {
	r.t.Helper()
	j := trigger.Job{ID: id, Schedule: timing, Target: &trigger.Target{Action: "util.noop"}}
	if more != nil {
		more(&j)
	}
	v, err := r.Create(r.t.Context(), &j, "tester")
	if err != nil {
		r.t.Fatalf("job %s: %v", id, err)
	}
	return v
}

// pass lets time go by, and everything happen that is due.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// expect compares the times for which a job was started, which are written as hours and minutes of the first day, or
// in full.
func (r *rig) expect(job string, want ...string) {
	r.t.Helper()
	synctest.Wait()
	got := r.ledger.times(job)
	for i, at := range want {
		if len(at) == len("15:04") {
			want[i] = "2000-01-01T" + at + ":00.000Z"
		}
	}
	if !slices.Equal(got, want) {
		r.t.Fatalf("%s was started for %v, want %v", job, got, want)
	}
}

// done ends what a job has started last, as the conductor would tell it.
func (r *rig) done(id string, status stepwell.ExecutionStatus) {
	r.t.Helper()
	if err := r.ledger.end(id, status); err != nil {
		r.t.Fatal(err)
	}
	r.Ended(id)
	synctest.Wait()
}

func (r *rig) view(job string) *trigger.Status {
	r.t.Helper()
	v, err := r.Job(job)
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

func wantCode(t *testing.T, err error, code stepwell.Code) {
	t.Helper()
	if stepwell.CodeOf(err) != code {
		t.Fatalf("error %v (%s), want %s", err, stepwell.CodeOf(err), code)
	}
	if e, ok := errors.AsType[*stepwell.Error](err); ok && e.Error() == "" {
		t.Fatal("the error says nothing")
	}
}

func cron(expression string) trigger.Timing {
	return trigger.Timing{Type: trigger.TypeCron, Expression: expression}
}

// must is for what cannot fail.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// last is the latest execution of a job.
func (r *rig) last(job string) string { r.t.Helper(); return string(r.view(job).LastExecution) }
