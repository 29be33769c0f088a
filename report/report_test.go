package report_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/report"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/trigger"
)

// memory is a store of executions whose history is what a test says.
type memory struct {
	mu         sync.Mutex
	executions map[string]*store.Execution
	events     map[int64][]engine.HistoryEvent
	lines      map[int64][]store.LogLine
	objects    map[string]store.Object
	away       bool
}

func newMemory() *memory {
	return &memory{executions: map[string]*store.Execution{}, events: map[int64][]engine.HistoryEvent{}, lines: map[int64][]store.LogLine{}, objects: map[string]store.Object{}}
}

var errAway = &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "away"}

func (m *memory) Execution(_ context.Context, id string) (*store.Execution, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if x := m.executions[id]; x != nil {
		copied := *x
		return &copied, nil
	}
	return nil, &stepwell.Error{Code: stepwell.CodeNotFound}
}

func (m *memory) Events(_ context.Context, no, after int64, limit int) (list []engine.HistoryEvent, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.events[no] {
		if e.Version > after && (len(list) < limit || list[len(list)-1].Version == e.Version) {
			list = append(list, e)
		}
	}
	return list, nil
}

func (m *memory) Logs(_ context.Context, no int64, f store.LogFilter) (list []store.LogLine, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.lines[no] {
		if l.Seq > f.After && !l.At.Before(f.Since) && len(list) < f.Limit {
			list = append(list, l)
		}
	}
	return list, nil
}

func (m *memory) PutObjects(_ context.Context, objects ...store.Object) ([]store.Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return nil, errAway
	}
	for _, o := range objects {
		if _, there := m.objects[o.ID]; there && o.Revision == 0 {
			return nil, &stepwell.Error{Code: stepwell.CodeConflict}
		}
		m.objects[o.ID] = o
	}
	return objects, nil
}

func (m *memory) DeleteObject(_ context.Context, _, id string, _ int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, id)
	return nil
}

func (m *memory) Object(_ context.Context, _, id string) (*store.Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o, ok := m.objects[id]; ok {
		return &o, nil
	}
	return nil, &stepwell.Error{Code: stepwell.CodeNotFound}
}

func (m *memory) Objects(_ context.Context, f store.ObjectFilter) (list []store.Object, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range m.objects {
		if o.ID > f.After {
			list = append(list, o)
		}
	}
	slices.SortFunc(list, func(a, b store.Object) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return list[:min(len(list), f.Limit)], nil
}

// rig is a reporter whose receiver keeps what it takes.
type rig struct {
	t        *testing.T
	m        *memory
	reporter *report.Reporter
	mu       sync.Mutex
	told     map[string][]string // by execution
	refuse   func(id string) error
	cancel   func()
	ended    chan struct{}
}

func newRig(t *testing.T, m *memory) *rig {
	r := &rig{t: t, m: m, told: map[string][]string{}}
	r.begin()
	return r
}

// begin starts the reporter, as after a crash too.
func (r *rig) begin() {
	r.reporter = report.New(report.Options{Store: r.m, Log: slog.New(slog.DiscardHandler), Receiver: report.Receiver{Name: "there", Lines: true,
		Take: func(_ context.Context, x *store.Execution, changes []report.Change) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.refuse != nil {
				if err := r.refuse(x.ID); err != nil {
					return err
				}
			}
			for _, c := range changes {
				text := c.Step + ":" + c.Status
				if c.Line != nil {
					text = c.Line.Message
				}
				r.told[x.ID] = append(r.told[x.ID], text)
			}
			return nil
		}}})
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel, r.ended = cancel, make(chan struct{})
	go func() {
		defer close(r.ended)
		_ = r.reporter.Run(ctx) // never fails
	}()
	synctest.Wait()
}

func (r *rig) end() {
	r.cancel()
	<-r.ended
}

// execute adds an execution of n versions, with a step and a line in each, that has ended.
func (r *rig) execute(no int64, versions int) string {
	id := fmt.Sprintf("x-%05d", no)
	x := &store.Execution{No: no, ID: id, Status: stepwell.ExecutionCompleted, Started: time.Now(), Ended: time.Now(), Version: int64(versions)}
	r.m.mu.Lock()
	for v := 1; v <= versions; v++ {
		e := engine.HistoryEvent{Version: int64(v), Step: int32(v), StepKey: fmt.Sprint("s", v), Type: "completed", At: time.Now().Add(time.Duration(2*v) * time.Millisecond)}
		if v == 1 {
			e.Type, e.StepKey = "start", ""
		}
		r.m.events[no] = append(r.m.events[no], e)
		r.m.lines[no] = append(r.m.lines[no], store.LogLine{Seq: int64(v), At: e.At.Add(time.Millisecond), Message: fmt.Sprint("line ", v)})
	}
	r.m.executions[id] = x
	r.m.mu.Unlock()
	r.take(id, 1)
	return id
}

func (r *rig) take(id string, version int64) {
	r.t.Helper()
	if err := r.reporter.Take(r.t.Context(), []trigger.Happened{{Kind: trigger.KindBegun, Execution: id, Version: version, At: time.Now()}, {Kind: trigger.KindEnded, Execution: id}}); err != nil {
		r.t.Fatal(err)
	}
}

// want is all of an execution, once and in order.
func (r *rig) want(id string, versions int) {
	r.t.Helper()
	list := []string{":running", "line 1"}
	for v := 2; v <= versions; v++ {
		list = append(list, fmt.Sprintf("s%d:completed", v), fmt.Sprint("line ", v))
	}
	list = append(list, ":completed")
	r.mu.Lock()
	defer r.mu.Unlock()
	if got := r.told[id]; !slices.Equal(got, list) {
		r.t.Errorf("%s: %d changes were told, want %d: %.300v", id, len(got), len(list), got)
	}
}

// all is what was told of an execution.
func (r *rig) all(id string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.told[id]
}

// refusing has the receiver refuse.
func (r *rig) refusing(refuse func(id string) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = refuse
}

func (r *rig) objects() int {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	return len(r.m.objects)
}

func TestToldInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		defer func() { r.end() }()
		long, short := r.execute(1, 3000), r.execute(2, 3)
		r.take(short, 1) // the outbox may give an entry twice
		time.Sleep(10 * time.Second)
		r.want(long, 3000)
		r.want(short, 3)
		if n := r.objects(); n != 0 {
			t.Errorf("%d executions are still to be told of", n)
		}
	})
}

// While the receiver is away nothing is lost, and the outbox does not wait; what it refuses of one execution delays no other.
func TestReceiverAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		defer func() { r.end() }()
		r.refusing(func(string) error { return errors.New("away") })
		var ids []string
		for n := range 100 {
			ids = append(ids, r.execute(int64(n+1), 3))
		}
		time.Sleep(time.Hour)
		r.end() // killed meanwhile
		r.begin()
		time.Sleep(time.Minute)
		r.refusing(func(id string) error {
			if id == ids[7] {
				return errors.New("not this one")
			}
			return nil
		})
		time.Sleep(2 * time.Minute)
		for i, id := range ids {
			if i != 7 {
				r.want(id, 3)
			}
		}
		if n := r.objects(); n != 1 || len(r.all(ids[7])) != 0 {
			t.Errorf("%d executions are still to be told of, want 1", n)
		}
	})
}

// A restart of an execution that was told of to its end is told from there.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		defer func() { r.end() }()
		id := r.execute(1, 3)
		time.Sleep(10 * time.Second)
		r.want(id, 3)
		r.m.mu.Lock()
		r.m.executions[id].Version, r.m.executions[id].Ended = 5, time.Now()
		r.m.events[1] = append(r.m.events[1], engine.HistoryEvent{Version: 4, Step: -1, Type: "restart", At: time.Now()}, engine.HistoryEvent{Version: 5, StepKey: "s3", Type: "completed", At: time.Now()})
		r.m.mu.Unlock()
		before := len(r.all(id))
		r.take(id, 4)
		time.Sleep(10 * time.Second)
		if got := r.all(id)[before:]; !slices.Equal(got, []string{":running", "s3:completed", ":completed"}) {
			t.Errorf("told %v", got)
		}
	})
}

// More executions than are held in memory wait in the store.
func TestMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		defer func() { r.end() }()
		r.refusing(func(string) error { return errors.New("away") })
		const n = 12_000
		for no := range n {
			r.execute(int64(no+1), 1)
		}
		r.refusing(nil)
		time.Sleep(2 * time.Minute)
		r.mu.Lock()
		defer r.mu.Unlock()
		if left := r.objects(); left != 0 || len(r.told) != n {
			t.Errorf("%d were told of, want %d; %d are left", len(r.told), n, left)
		}
	})
}

// An execution that retention has removed is not told of any more.
func TestRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		defer func() { r.end() }()
		r.take("x-removed", 1)
		time.Sleep(10 * time.Second)
		if n := r.objects(); n != 0 {
			t.Errorf("%d are left", n)
		}
		r.m.away = true
		if err := r.reporter.Take(t.Context(), []trigger.Happened{{Kind: trigger.KindBegun, Execution: "x"}}); !store.IsAway(err) && !errors.Is(err, errAway) {
			t.Errorf("while the store is unavailable: %v", err)
		}
	})
}
