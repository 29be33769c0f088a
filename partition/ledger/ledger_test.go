package ledger_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/builtin"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/partition/ledger"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/sqlite"
	"github.com/stepwell/stepwell/worker"
)

// rig is a ledger over a real store, conductor and worker.
type rig struct {
	*ledger.Ledger
	t       *testing.T
	store   *sqlite.Store
	library *pipeline.Library
	actions *action.Registry
	c       *conductor.Conductor
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, actions: &action.Registry{}}
	must(t, builtin.Register(r.actions, builtin.Options{}))
	var err error
	r.store, err = sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "ledger.db"), Exclusive: true, Synchronous: "normal"})
	must(t, err)
	q := &queue.Memory{}
	r.c, err = conductor.New(t.Context(), conductor.Options{Store: r.store, Queue: q, Blobs: r.store.Blobs(), Catalog: r.actions, Outbox: conductor.Outbox{Made: func() bool { return true }}})
	must(t, err)
	pool, err := worker.New(worker.Options{Queue: q, Actions: r.actions, Reporter: r.c, Records: r.store, Blobs: r.store.Blobs(), Lines: r.c.Line})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- r.c.Run(ctx) }()
	go func() { done <- pool.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		q.Close()
		must(t, r.store.Close())
	})
	r.library, err = pipeline.New(pipeline.Options{Objects: r.store, Runner: r.c, Executions: r.store, Catalog: r.actions})
	must(t, err)
	r.Ledger = r.over(r.store)
	return r
}

// over is a ledger over other objects.
func (r *rig) over(objects store.Objects) *ledger.Ledger {
	return r.at(objects, time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC))
}

// at is a ledger at a time.
func (r *rig) at(objects store.Objects, now time.Time) *ledger.Ledger {
	return ledger.New(ledger.Options{Objects: objects, Executions: r.store, Library: r.library, Catalog: r.actions, Now: func() time.Time { return now }})
}

// TestSweep: the snapshots of a pipeline that is removed go when nobody needs them, those of others stay, and one that is needed again
// meanwhile does.
func TestSweep(t *testing.T) {
	r := newRig(t)
	snapshots := func() int {
		list, err := r.store.Objects(t.Context(), store.ObjectFilter{Kind: "partition_snapshot"})
		must(t, err)
		return len(list)
	}
	gone, stays := r.create(strings.Replace(mirror, "name: mirror", "name: gone", 1)), r.create(mirror)
	r.make(gone, nil, "s2", "2026-09")
	r.make(stays, nil, "s2", "2026-09")
	must(t, r.Settle(t.Context(), r.store))
	if n := snapshots(); n != 2 {
		t.Fatalf("%d snapshots", n)
	}
	must(t, r.library.Delete(t.Context(), gone.ID, store.AnyRevision))
	must(t, r.at(r.store, time.Now().Add(47*time.Hour)).Sweep(t.Context()))
	if n := snapshots(); n != 2 {
		t.Errorf("%d snapshots are left too early", n)
	}
	later := time.Now().Add(49 * time.Hour)
	must(t, r.at(touched{r.store}, later).Sweep(t.Context()))
	if n := snapshots(); n != 2 {
		t.Errorf("%d snapshots, one of which is needed again", n)
	}
	must(t, r.at(r.store, later).Sweep(t.Context()))
	if n := snapshots(); n != 1 {
		t.Errorf("%d snapshots are left", n)
	}
	if got := r.table("", "mirror"); got.Counts[ledger.Done] != 1 {
		t.Errorf("%v", got.Counts)
	}
}

// touched are objects of which each is changed after it was listed.
type touched struct{ objects }

type objects = store.Objects

func (o touched) DeleteObject(ctx context.Context, kind, id string, revision int64) error {
	found, err := o.objects.Object(ctx, kind, id)
	if err == nil {
		_, err = o.objects.PutObjects(ctx, *found)
	}
	if err != nil {
		return err
	}
	return o.objects.DeleteObject(ctx, kind, id, revision)
}

func (r *rig) create(document string) *pipeline.Pipeline {
	r.t.Helper()
	p, err := r.library.Create(r.t.Context(), &pipeline.Draft{Document: []byte(document)}, "tester")
	must(r.t, err)
	return p
}

// make starts an execution for a partition and waits for its end.
func (r *rig) make(p *pipeline.Pipeline, params map[string]any, values ...string) string {
	r.t.Helper()
	in := pipeline.Launch{}
	in.Params = params
	x, err := r.Start(r.t.Context(), p.Name, values, nil, in)
	must(r.t, err)
	_, err = r.c.Wait(r.t.Context(), x.Execution)
	must(r.t, err)
	return x.Execution
}

func (r *rig) table(document string, name string) *ledger.Table {
	r.t.Helper()
	t, err := r.Table(r.t.Context(), name, []byte(document), ledger.Filter{Limit: 10_000})
	must(r.t, err)
	return t
}

const mirror = `name: mirror
parameters:
  - {name: collection, type: string, enum: [s2, l9]}
  - {name: month, type: string}
  - {name: fails, type: boolean, default: false}
settings:
  partition: {by: [collection, month], values: {month: {every: month, from: 2026-08, until: now - 3d}}}
steps:
  - {id: ingest, action: util.set_output, params: {outputs: {text: "{{ params.month }}"}}}
  - {id: write, action: util.log, depends_on: [ingest], params: {message: "{{ steps.ingest.outputs.text }}"}}
  - {id: end, action: util.fail, depends_on: [write], condition: "{{ params.fails }}", params: {message: no}}
`

// TestStates follows partitions from nothing over a failure, a repetition and a changed pipeline.
func TestStates(t *testing.T) {
	r := newRig(t)
	p := r.create(mirror)
	is := func(want string) *ledger.Table {
		t.Helper()
		must(t, r.Settle(t.Context(), r.store))
		got := r.table("", "mirror")
		if got.Grid != want {
			t.Errorf("%s, not %s: %+v", got.Grid, want, got.Partitions)
		}
		return got
	}
	is("......")
	first := r.make(p, nil, "s2", "2026-08")
	r.make(p, map[string]any{"fails": true}, "s2", "2026-09")
	is("df....")
	again := r.make(p, nil, "s2", "2026-09")
	if is("dd....").Partitions[1].Execution != "" && again == first {
		t.Error("the second partition is the execution of the first")
	}
	// A failed execution after one that completed is told, and what it did not make is still known.
	failed := r.make(p, map[string]any{"fails": true}, "s2", "2026-08")
	if got := is("fd....").Partitions[0]; string(got.Execution) != failed || got.Why != "the last execution is failed" {
		t.Errorf("%+v", got)
	}
	// An execution that was started otherwise counts too, and one of a value that is no partition counts nowhere.
	for _, month := range []string{"2026-10", "1999-01"} {
		in := pipeline.Launch{Workflow: p.ID}
		in.Params = map[string]any{"collection": "l9", "month": month}
		x, err := r.library.Launch(t.Context(), in)
		must(t, err)
		_, err = r.c.Wait(t.Context(), x.Execution)
		must(t, err)
	}
	is("fd...d")
	_, err := r.library.Update(t.Context(), p.ID, store.AnyRevision, func(d *pipeline.Draft) error {
		d.Document = []byte(strings.Replace(mirror, "text: \"{{", "text: \"month {{", 1))
		return nil
	})
	must(t, err)
	got := is("fs...s")
	if why := got.Partitions[1].Why; why != "changed since version 1: ingest, write" {
		t.Error(why)
	}
	if counts, err := json.Marshal(got.Counts); err != nil || string(counts) != `{"failed":1,"missing":3,"stale":2}` {
		t.Errorf("%s, %v", counts, err)
	}
	// With the first document as it was, nothing is stale.
	if got := r.table(mirror, ""); got.Grid != "fd...d" || got.Version != 0 {
		t.Errorf("%+v", got)
	}
	must(t, r.library.Delete(t.Context(), p.ID, store.AnyRevision))
	r.create(mirror)
	is("......")
}

// TestOnce starts one partition from many sides at once.
func TestOnce(t *testing.T) {
	r := newRig(t)
	r.create(strings.Replace(mirror, "action: util.log, depends_on: [ingest], params: {message: \"{{ steps.ingest.outputs.text }}\"}", "action: util.wait, depends_on: [ingest], params: {seconds: 0.2}", 1))
	ids := make(chan string, 20)
	for range cap(ids) {
		go func() {
			x, err := r.Start(t.Context(), "mirror", []string{"l9", "2026-09"}, nil, pipeline.Launch{})
			if err != nil {
				t.Error(err)
				ids <- ""
				return
			}
			ids <- x.Execution
		}()
	}
	id := <-ids
	for range cap(ids) - 1 {
		if other := <-ids; other != id {
			t.Errorf("%s and %s", id, other)
		}
	}
	if got := r.table("", "mirror"); got.Grid != "....r." || string(got.Partitions[4].Execution) != id {
		t.Errorf("%+v", got)
	}
	_, err := r.c.Wait(t.Context(), id)
	must(t, err)
	// A start that asks for a missing partition finds the execution that has made it meanwhile.
	must(t, r.Settle(t.Context(), r.store))
	late, err := r.Start(t.Context(), "mirror", []string{"l9", "2026-09"}, []string{ledger.Missing, ledger.Failed}, pipeline.Launch{})
	if err != nil || late.Execution != id || late.Fresh {
		t.Errorf("%+v, %v", late, err)
	}
	for said, values := range map[string][]string{"has 2 values": {"l9"}, "there is an empty one": {"l9", ""}} {
		if _, err := r.Start(t.Context(), "mirror", values, nil, pipeline.Launch{}); err == nil || !strings.Contains(err.Error(), said) {
			t.Error(err)
		}
	}
}

// dying are the objects and the outbox of a process that ends at one of its calls: before it, or behind it.
type dying struct {
	*sqlite.Store
	left   int
	behind bool
}

var errDead = errors.New("the process has ended")

func (d *dying) call(do func() error) error {
	if d.left == 0 {
		return errDead
	}
	d.left--
	if d.left > 0 {
		return do()
	}
	if !d.behind {
		return errDead
	}
	return errors.Join(do(), errDead)
}

func (d *dying) PutObjects(ctx context.Context, objects ...store.Object) (out []store.Object, err error) {
	err = d.call(func() (err error) { out, err = d.Store.PutObjects(ctx, objects...); return err })
	return out, err
}

func (d *dying) Object(ctx context.Context, kind, id string) (o *store.Object, err error) {
	err = d.call(func() (err error) { o, err = d.Store.Object(ctx, kind, id); return err })
	return o, err
}

func (d *dying) Outbox(ctx context.Context, after int64, limit int) (list []store.Outgoing, err error) {
	err = d.call(func() (err error) { list, err = d.Store.Outbox(ctx, after, 2); return err })
	return list, err
}

func (d *dying) Delivered(ctx context.Context, nos []int64) error {
	return d.call(func() error { return d.Store.Delivered(ctx, nos) })
}

// TestLedgerThoughKilled ends the process at every call that the ledger makes between the end of an execution and its entry, before and behind
// it. What the next process has is what the executions say.
func TestLedgerThoughKilled(t *testing.T) {
	calls := 0
	for point := 1; ; point++ {
		reached := false
		for _, behind := range []bool{false, true} {
			r := newRig(t)
			p := r.create(mirror)
			r.make(p, nil, "s2", "2026-08")
			r.make(p, map[string]any{"fails": true}, "s2", "2026-09")
			r.make(p, nil, "l9", "2026-08")
			in := pipeline.Launch{Workflow: p.ID}
			in.Params = map[string]any{"collection": "s2", "month": "2026-08", "fails": true}
			x, err := r.library.Launch(t.Context(), in)
			must(t, err)
			_, err = r.c.Wait(t.Context(), x.Execution)
			must(t, err)
			d := &dying{Store: r.store, left: point, behind: behind}
			dead := false
			for range 2 { // the relay tries again
				if err := r.over(d).Settle(t.Context(), d); err != nil {
					if !errors.Is(err, errDead) {
						t.Fatal(err)
					}
					dead = true
				}
			}
			reached = reached || dead
			must(t, r.over(r.store).Settle(t.Context(), r.store))
			if got := r.table("", "mirror"); got.Grid != "ff.d.." {
				t.Errorf("ended at call %d (behind: %t): %s", point, behind, got.Grid)
			}
			if left, err := r.store.Outbox(t.Context(), 0, 10); err != nil || len(left) > 0 {
				t.Errorf("%d entries are left: %v", len(left), err)
			}
		}
		if calls = point; !reached {
			break
		}
	}
	if calls < 10 {
		t.Errorf("only %d points", calls)
	}
}

// TestEdits makes a partition and changes the pipeline: changes of layout and words make nothing stale, others just the steps whose work is
// another one.
func TestEdits(t *testing.T) {
	const document = `# a pipeline
name: edits
description: old words
parameters:
  - {name: month, type: string}
  - {name: limit, type: integer, default: 10}
  - {name: level, type: string, default: info}
settings:
  partition: {by: [month], values: {month: {list: [a]}}}
steps:
  - {id: fetch, action: util.set_output, params: {outputs: {n: "{{ params.limit }}", kind: "x"}}}
  - {id: check, action: util.condition, depends_on: [fetch], params: {condition: "{{ steps.fetch.outputs.n > 3 }}"}}
  - id: each
    action: util.log
    depends_on: [check]
    for_each: {items: "{{ range(2) }}"}
    params: {message: "{{ item }} of {{ steps.fetch.outputs.kind }}"}
  - id: parts
    depends_on: [fetch]
    steps:
      - {id: one, action: util.log, params: {message: "{{ steps.fetch.outputs.n }}", level: "{{ params.level }}"}}
      - {id: two, action: util.log, depends_on: [one], params: {message: two}}
  - {id: alone, action: util.log, params: {message: alone}, retry: {max_attempts: 2}}
  - {id: last, action: util.log, depends_on: [each, alone], condition: "{{ steps.each.outputs.completed == 2 }}", params: {message: done}}
finally:
  - {id: tell, action: util.log, params: {message: told}}
`
	r := newRig(t)
	p := r.create(document)
	r.make(p, nil, "a")
	must(t, r.Settle(t.Context(), r.store))
	for _, c := range []struct{ old, now, stale string }{
		{"# a pipeline\n", "# another comment\n\n", ""},
		{"old words", "new words", ""},
		{"description: old words\n", "", ""},
		{"{id: alone, action: util.log, params: {message: alone}, retry: {max_attempts: 2}}", "id: alone # as a block\n    action: util.log\n    params:\n      message: alone\n    retry:\n      max_attempts: 2", ""},
		{"message: told", "message: told otherwise", ""}, // finally is not watched
		{"{id: alone,", "{id: alone, name: Alone,", ""},
		{"{id: alone,", "{id: alone, priority: 7,", ""},
		{"{id: alone,", "{id: alone, queue: fast,", ""},
		{"settings:\n", "settings:\n  max_parallel_steps: 3\n", ""},
		{"settings:\n", "settings:\n  timeout_seconds: 100\n", ""},
		{"settings:\n", "settings:\n  priority: 5\n", ""},
		{"list: [a]", "list: [a, b]", ""},
		{"depends_on: [each, alone]", "depends_on: [alone, each]", ""},
		{"message: alone", "message: not alone", "alone"},
		{"message: done", "message: over", "last"},
		{"outputs.completed == 2", "outputs.completed >= 2", "last"},
		{"range(2)", "range(3)", "each last"},
		{"{{ item }} of", "{{ item }}:", "each last"},
		{`kind: "x"`, `kind: "y"`, "fetch check each parts last"},
		{"n > 3", "n > 4", "check"},
		{"max_attempts: 2", "max_attempts: 3", "alone"},
		{"default: 10", "default: 11", "fetch check each parts last"},
		{"default: 10", "required: true", "fetch check each parts last"},
		{"default: info", "default: warning", "parts"},
		{"message: alone}", "message: \"{{ params }}\"}", "alone"},
		{"message: two", "message: 2!", "parts"},
		{"{id: two, action: util.log, depends_on: [one], params: {message: two}}", "{id: two, action: util.noop, depends_on: [one]}", "parts"},
		{"{id: alone, action: util.log, params: {message: alone}", "{id: alone, action: util.wait, params: {seconds: 1}", "alone"},
		{"{id: alone,", "{id: alone, timeout_seconds: 7,", "alone"},
		{"{id: alone,", "{id: alone, idempotent: false,", "alone"},
		{"{id: alone,", "{id: alone, on_failure: continue,", "alone"},
		{"finally:", "  - {id: more, action: util.noop}\nfinally:", "more"},
		{"  - {id: last, action: util.log, depends_on: [each, alone], condition: \"{{ steps.each.outputs.completed == 2 }}\", params: {message: done}}\n", "", "last"},
		{"id: check,", "id: check, condition: \"{{ params.month != 'b' }}\",", "check"},
		{"id: last, action: util.log, depends_on", "id: last, action: util.log, trigger_rule: all_done, depends_on", "last"},
		{"depends_on: [check]\n    for_each: {", "depends_on: [check]\n    for_each: {max_failures: 1, ", "each last"},
		{"{id: one, action: util.log", "{id: one, condition: \"{{ params.limit > 1 }}\", action: util.log", "parts"},
		{"by: [month], values", "by: [month], watch: [alone], values", ""},
	} {
		if strings.Count(document, c.old) != 1 {
			t.Fatalf("%q is %d times in the document", c.old, strings.Count(document, c.old))
		}
		got := r.table(strings.Replace(document, c.old, c.now, 1), "").Partitions[0]
		want, state := "", ledger.Done
		if c.stale != "" {
			want, state = "changed since version 1: "+strings.ReplaceAll(c.stale, " ", ", "), ledger.Stale
		}
		if got.Why != want || got.State != state {
			t.Errorf("%q → %q: %s %q, not %q", c.old, c.now, got.State, got.Why, want)
		}
	}
}

// TestManyPartitions looks at many partitions; STEPWELL_TEST_PARTITIONS says how many.
func TestManyPartitions(t *testing.T) {
	n := 2_000
	if given := os.Getenv("STEPWELL_TEST_PARTITIONS"); given != "" {
		var err error
		n, err = strconv.Atoi(given)
		must(t, err)
	}
	r := newRig(t)
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("part-", i)
	}
	list, err := json.Marshal(names)
	must(t, err)
	p := r.create("name: many\nparameters: [{name: part, type: string}]\nsettings: {partition: {by: [part], values: {part: {list: " + string(list) + "}}}}\nsteps: [{id: a, action: util.noop}]\n")
	first := r.make(p, nil, "part-0")
	must(t, r.Settle(t.Context(), r.store))
	entry, err := r.store.Object(t.Context(), pipeline.KindPartition, p.ID+"/part-0")
	must(t, err)
	for i := 1; i < n; i += 1000 { // as if the same had been made of all but the last
		var page []store.Object
		for _, name := range names[i:min(i+1000, n-1)] {
			page = append(page, store.Object{Kind: pipeline.KindPartition, ID: p.ID + "/" + name, Body: entry.Body})
		}
		if len(page) > 0 {
			_, err = r.store.PutObjects(t.Context(), page...)
			must(t, err)
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	peak, over := make(chan uint64), make(chan struct{})
	go func() { peak <- liveUntil(over) }()
	began := time.Now()
	got, err := r.Table(t.Context(), p.ID, nil, ledger.Filter{States: []string{ledger.Missing}, Limit: 10})
	must(t, err)
	took := time.Since(began)
	close(over)
	live := int64(<-peak) - int64(before.HeapAlloc)
	if live > 100<<20 && n <= 100_000 {
		t.Errorf("%d MB of heap at a time", live>>20)
	}
	runtime.ReadMemStats(&after)
	t.Logf("%d partitions: %s, %d MB allocated in all, at most %d MB of heap at a time, garbage included", n, took, (after.TotalAlloc-before.TotalAlloc)>>20, live>>20)
	if len(got.Grid) != n || got.Counts[ledger.Done] != n-1 || len(got.Partitions) != 1 || got.Partitions[0].Key != names[n-1] || first == "" {
		t.Errorf("%d, %v, %+v", len(got.Grid), got.Counts, got.Partitions)
	}
}

// liveUntil is the most heap that is in use, garbage included, until a channel is closed.
func liveUntil(over chan struct{}) (most uint64) {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	for {
		metrics.Read(sample)
		most = max(most, sample[0].Value.Uint64())
		select {
		case <-over:
			return most
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// TestNoPartitions says so.
func TestNoPartitions(t *testing.T) {
	r := newRig(t)
	r.create("name: plain\nsteps: [{id: a, action: util.noop}]\n")
	_, err := r.Table(t.Context(), "plain", nil, ledger.Filter{})
	if stepwell.CodeOf(err) != stepwell.CodeInvalid || !strings.Contains(err.Error(), "the pipeline plain has no partitions") {
		t.Error(err)
	}
	if _, err := r.Table(t.Context(), "nothing", nil, ledger.Filter{}); stepwell.CodeOf(err) != stepwell.CodeNotFound {
		t.Error(err)
	}
	if _, err := r.Table(t.Context(), "plain", nil, ledger.Filter{States: []string{"old"}}); stepwell.CodeOf(err) != stepwell.CodeInvalid {
		t.Error(err)
	}
}
