package field_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api/columns"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/field"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
)

// rows are the steps of executions that all run one definition: a for_each with a step after it.
type rows struct {
	definition []byte

	mu         sync.Mutex
	states     map[int64][]store.StepState
	events     map[int64][]engine.HistoryEvent
	executions map[string]*store.Execution
	whole      int     // how often all rows of an execution were read
	some       []int32 // rows that were read by their index
}

type everyAction struct{}

func (everyAction) Spec(string) (*spec.Spec, bool) { return &spec.Spec{}, true }

func newRows(t *testing.T) *rows {
	t.Helper()
	d := &definition.Definition{Name: "wide", Steps: []definition.Step{
		{ID: "each", Action: "util.noop", ForEach: &definition.ForEach{Items: 100}},
		{ID: "join", Action: "util.noop", DependsOn: []string{"each"}}}}
	body, err := definition.Encode(d)
	if err != nil {
		t.Fatal(err)
	}
	return &rows{definition: body, states: map[int64][]store.StepState{}, events: map[int64][]engine.HistoryEvent{}, executions: map[string]*store.Execution{}}
}

func (r *rows) Definition(context.Context, []byte) ([]byte, error) { return r.definition, nil }

func (r *rows) Execution(_ context.Context, id string) (*store.Execution, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x := r.executions[id]; x != nil {
		copied := *x
		return &copied, nil
	}
	return nil, &stepwell.Error{Code: stepwell.CodeNotFound, Message: "no execution " + id}
}

func (r *rows) States(_ context.Context, no int64, of []int32) (out []store.StepState, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if of == nil {
		r.whole++
		return slices.Clone(r.states[no]), nil
	}
	r.some = append(r.some, of...)
	for _, s := range r.states[no] {
		if slices.Contains(of, s.Idx) {
			out = append(out, s)
		}
	}
	return out, nil
}

func (r *rows) Events(_ context.Context, no, after int64, _ int) (out []engine.HistoryEvent, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events[no] {
		if e.Version > after {
			out = append(out, e)
		}
	}
	return out, nil
}

var began = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

// begin stores an execution whose iterations run.
func (r *rows) begin(no int64, iterations int) *store.Execution {
	list := []store.StepState{{Idx: 0, Version: 1, Status: stepwell.StepRunning, Attempt: 1, Started: began.UnixMicro()}}
	for i := range iterations {
		list = append(list, store.StepState{Idx: int32(2 + i), Version: 1, Status: stepwell.StepRunning, Attempt: 1, Key: fmt.Sprintf("each[%d]", i), Worker: "w", Started: began.UnixMicro()})
	}
	hash := sha256.Sum256(r.definition)
	x := &store.Execution{No: no, ID: fmt.Sprint(no), Definition: hash[:], Status: stepwell.ExecutionRunning, Created: began, Started: began, Version: 1}
	r.mu.Lock() // followers of others read
	defer r.mu.Unlock()
	r.states[no], r.executions[x.ID] = list, x
	return x
}

// end writes the ends of iterations as one commit.
func (r *rows) end(x *store.Execution, iterations ...int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x.Version++
	for _, i := range iterations {
		s := &r.states[x.No][1+i]
		s.Version, s.Status, s.Ended, s.Cost = x.Version, stepwell.StepCompleted, s.Started+int64(1000*(1+i)), 5
		r.events[x.No] = append(r.events[x.No], engine.HistoryEvent{Version: x.Version, Step: s.Idx, StepKey: s.Key, Type: "completed", At: began})
	}
}

// columns are all columns of an execution, as a hub gives them.
func (r *rows) columns(t *testing.T, h *field.Hub, x *store.Execution) []byte {
	t.Helper()
	table, err := h.Table(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := table.Encode(nil, 0, table.Len())
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// reads are how often all rows of an execution were read, and how many were by their index.
func (r *rows) reads() (whole, some int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.whole, len(r.some)
}

func (r *rows) hub(o field.Options) *field.Hub {
	o.Store, o.Catalog = r, everyAction{}
	return field.New(o)
}

func TestTablesAreKeptWithinTheirMemory(t *testing.T) {
	r := newRows(t)
	var all []*store.Execution
	for no := range int64(5) {
		all = append(all, r.begin(no+1, 1000))
	}
	// Three tables of 1,002 steps, with at most 64 bytes a step, have room in this; four have not.
	h := r.hub(field.Options{Bytes: 3 * 64 * 1002})
	for _, x := range all {
		r.columns(t, h, x)
	}
	if r.whole != 5 {
		t.Fatalf("%d tables were made of 5 executions", r.whole)
	}
	r.columns(t, h, all[4])
	r.columns(t, h, all[3])
	if r.whole != 5 {
		t.Errorf("the newest tables were made again")
	}
	r.columns(t, h, all[0])
	if r.whole != 6 {
		t.Errorf("the oldest table was kept: %d were made, want 6", r.whole)
	}
	r.columns(t, h, all[3])
	if r.whole != 6 {
		t.Errorf("a table that was asked for lately was dropped for an older one")
	}
}

func TestLargeTablesAreNotKept(t *testing.T) {
	r := newRows(t)
	small, large := r.begin(1, 10), r.begin(2, 1000)
	h := r.hub(field.Options{TableBytes: 20_000})
	for range 2 {
		r.columns(t, h, small)
		r.columns(t, h, large)
	}
	if r.whole != 3 {
		t.Errorf("%d tables were made, want the small one once and the large one twice", r.whole)
	}
}

// TestManyAskForOneTable: it is made once, and an execution with small tables has its memory counted too.
func TestManyAskForOneTable(t *testing.T) {
	r := newRows(t)
	x := r.begin(1, 1000)
	h := r.hub(field.Options{})
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			table, err := h.Table(t.Context(), x)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := table.Packed(nil, 0, table.Len()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if r.whole != 1 {
		t.Errorf("the table was made %d times", r.whole)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Table(ctx, r.begin(2, 10)); err == nil {
		t.Error("a table is made for a request that has ended")
	}
}

// TestTablesArePatched: of a table that is kept, only rows that commits have changed are read; it is then what a new hub makes.
func TestTablesArePatched(t *testing.T) {
	r := newRows(t)
	x := r.begin(1, 100)
	h := r.hub(field.Options{})
	first, err := h.Table(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	before := r.columns(t, h, x)
	r.end(x, 3, 7)
	after := r.columns(t, h, x)
	if r.whole != 1 || !slices.Contains(r.some, 5) || !slices.Contains(r.some, 9) || len(r.some) > 3 {
		t.Errorf("%d tables were made, and the rows %v read, want those of the steps 5 and 9, and of the one around them", r.whole, r.some)
	}
	if !bytes.Equal(after, r.columns(t, r.hub(field.Options{}), x)) {
		t.Error("the patched table is not the one that another server makes")
	}
	decoded, err := columns.Decode(after)
	if err != nil {
		t.Fatal(err)
	}
	if status, took := decoded.Column("status"), decoded.Column("duration"); decoded.States[status[9]] != "completed" || decoded.States[status[8]] != "running" || took[9] != 8 || decoded.Version != 2 {
		t.Errorf("version %d: step 9 is %s after %d ms", decoded.Version, decoded.States[status[9]], took[9])
	}
	if same, err := first.Encode(nil, 0, first.Len()); err != nil || !bytes.Equal(same, before) {
		t.Errorf("a table that was given out has changed, error %v", err)
	}
}

// A graph that is asked for again is the same one, until what is expanded or the execution has changed.
func TestGraphs(t *testing.T) {
	r := newRows(t)
	x := r.begin(1, 100)
	h := r.hub(field.Options{})
	graph := func(expand ...string) *field.Graph {
		t.Helper()
		g, err := h.Graph(t.Context(), x, expand)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	states := func(g *field.Graph) map[string]int { return g.Nodes[0].States }
	first := graph()
	if again := graph(); again != first || states(first)["running"] != 100 {
		t.Errorf("the graph is made again, or has %v", states(first))
	}
	if open := graph("each"); len(open.Nodes) == len(first.Nodes) {
		t.Error("nothing is expanded")
	}
	if _, err := h.Graph(t.Context(), x, []string{"none"}); stepwell.CodeOf(err) != stepwell.CodeInvalid {
		t.Errorf("what is not there is expanded: %v", err)
	}
	r.end(x, 3, 7)
	if now := graph(); now.Version != 2 || states(now)["completed"] != 2 || states(now)["running"] != 98 {
		t.Errorf("version %d has %v", now.Version, states(now))
	}
}

func TestTablesAreMadeAnew(t *testing.T) {
	r := newRows(t)
	x := r.begin(1, 10_000)
	h := r.hub(field.Options{})
	r.columns(t, h, x)
	var most []int
	for i := range 2500 {
		most = append(most, i)
	}
	r.end(x, most...)
	r.columns(t, h, x)
	if r.whole != 2 || len(r.some) > 0 {
		t.Errorf("after changes of a quarter of its steps: %d tables were made, and %d rows read one by one", r.whole, len(r.some))
	}
	x.Version++
	r.events[1] = append(r.events[1], engine.HistoryEvent{Version: x.Version, Step: -1, Type: "restart", At: began})
	r.columns(t, h, x)
	if r.whole != 3 {
		t.Errorf("after a restart: %d tables were made, want 3", r.whole)
	}
}

// TestPlansInMemory: a definition whose plan somebody has is not read.
func TestPlansInMemory(t *testing.T) {
	r := newRows(t)
	d, err := definition.Decode(r.definition)
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := plan.Compile(d, everyAction{})
	if err != nil {
		t.Fatal(err)
	}
	x := r.begin(1, 10)
	want := r.columns(t, r.hub(field.Options{}), x)
	r.definition = nil
	h := r.hub(field.Options{Plan: func(hash [sha256.Size]byte) *plan.Plan {
		if hash != [sha256.Size]byte(x.Definition) {
			return nil
		}
		return compiled
	}})
	if got := r.columns(t, h, x); !bytes.Equal(got, want) {
		t.Error("the columns differ from those of a definition that was read")
	}
	other := r.begin(2, 10)
	other.Definition = make([]byte, sha256.Size)
	if _, err := h.Table(t.Context(), other); err == nil {
		t.Error("there is a table of a definition that neither the store nor the memory has")
	}
}

// TestPackedParts: of a table that is read in several parts each is kept, and only these.
func TestPackedParts(t *testing.T) {
	r := newRows(t)
	table, err := r.hub(field.Options{}).Table(t.Context(), r.begin(1, 100_100))
	if err != nil {
		t.Fatal(err)
	}
	pack := func(from, limit int) []byte {
		t.Helper()
		out, err := table.Packed([]string{"start"}, from, limit)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	first, second := pack(0, field.PackedRows), pack(field.PackedRows, field.PackedRows)
	for from, want := range map[int][]byte{0: first, field.PackedRows: second} {
		if got := pack(from, field.PackedRows); &got[0] != &want[0] {
			t.Errorf("the part from %d on is made again", from)
		}
	}
	if got := pack(field.PackedRows, 50); bytes.Equal(got, second) {
		t.Error("50 steps are taken for the whole part")
	}
	if got := pack(0, table.Len()); bytes.Equal(got, first) {
		t.Error("all steps are taken for the first part")
	}
}

// TestPacked: what is kept compressed is what is encoded, and parts are not taken for the whole.
func TestPacked(t *testing.T) {
	r := newRows(t)
	table, err := r.hub(field.Options{}).Table(t.Context(), r.begin(1, 1000))
	if err != nil {
		t.Fatal(err)
	}
	all, err := table.Packed(nil, 0, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	again, err := table.Packed(nil, 0, 100_000)
	if err != nil || len(again) != len(all) {
		t.Errorf("%d bytes, then %d, error %v", len(all), len(again), err)
	}
	if len(all) > 12*table.Len() {
		t.Errorf("%d bytes for %d steps", len(all), table.Len())
	}
	part, err := table.Packed([]string{"status"}, 5, 10)
	if err != nil || len(part) >= len(all) {
		t.Errorf("a part has %d bytes, all %d, error %v", len(part), len(all), err)
	}
	if _, err := table.Packed([]string{"colour"}, 0, 10); stepwell.CodeOf(err) != stepwell.CodeInvalid {
		t.Errorf("an unknown column: %v", err)
	}
}
