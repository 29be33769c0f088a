package storetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// prune removes batch after batch to the end.
func (f *fixture) prune(r store.Retention) (sum store.Removed) {
	f.Helper()
	for range 1000 {
		n, more, err := f.Prune(f.Context(), r)
		f.must(err)
		sum.Executions, sum.Lines, sum.Keys, sum.Audit, sum.Blobs = sum.Executions+n.Executions, sum.Lines+n.Lines, sum.Keys+n.Keys, sum.Audit+n.Audit, sum.Blobs+n.Blobs
		if !more {
			return sum
		}
	}
	f.Fatal("there is no end of what may go")
	return sum
}

// full stores an execution with something of everything; with a status that is terminal, it ended at its
// number in seconds.
func (f *fixture) full(no int64, status stepwell.ExecutionStatus) {
	f.Helper()
	f.must(f.PutDefinition(f.Context(), []byte("hash"), []byte(three)))
	c := f.first(no)
	c.Create.Key = fmt.Sprint("key-", no)
	spawns := []engine.Spawn{{Name: "s", Key: "s:1", Action: "do.s", DependsOn: []string{"a"}}}
	two := store.Commit{Execution: no, Version: 2, Log: f.body(2, nil, engine.Event{Kind: engine.Spawned, Epoch: 1, Spawns: spawns}, engine.Event{Kind: engine.Running, Idx: 1, Epoch: 1, Started: at(1)}),
		Steps: []engine.StepRow{{Idx: 3, Key: "s:1", Action: "do.s"}, waiting(1, "x"), done(0, 1, "{}")}}
	three := f.next(no, 3)
	three.Update = &store.Update{Status: status}
	if status.Terminal() {
		three.Update.Ended = at(no * 1000)
	}
	f.commit(c, two, three)
	f.must(f.PutMemo(f.Context(), store.Memo{Execution: no, Key: "k", Value: []byte("1")}))
	one := line(0, "info", "hello", 1)
	one.Execution = no
	f.must(f.AppendLogs(f.Context(), []store.LogLine{one, one}))
}

// left says what there is of an execution.
func (f *fixture) left(no int64) string {
	f.Helper()
	var parts []string
	add := func(what string, there bool, err error) {
		f.Helper()
		if err != nil && stepwell.CodeOf(err) != stepwell.CodeNotFound {
			f.Fatal(err)
		}
		if there && err == nil {
			parts = append(parts, what)
		}
	}
	_, err := f.Execution(f.Context(), id(no))
	add("row", true, err)
	steps, err := f.Steps(f.Context(), no, store.StepFilter{})
	add("steps", len(steps) > 0, err)
	outputs := all(f, f.Outputs(f.Context(), no))
	add("outputs", len(outputs) > 0, nil)
	add("log", len(all(f, f.StepLog(f.Context(), no, 1))) > 0, nil) // from after 1: it is not about to be restarted
	lines, err := f.Logs(f.Context(), no, store.LogFilter{})
	add("lines", len(lines) > 0, err)
	_, memo, err := f.Memo(f.Context(), no, 0, "k")
	add("memo", memo, err)
	_, err = f.StartKey(f.Context(), fmt.Sprint("key-", no))
	add("key", true, err)
	return strings.Join(parts, " ")
}

const everything = "row steps outputs log lines memo key"

func sec(n int64) time.Time { return time.UnixMicro(at(n * 1000)) }

var retention = []promise{
	{"terminal executions that ended before go with all that is theirs, others stay whole", func(f *fixture) {
		for no, status := range map[int64]stepwell.ExecutionStatus{1: stepwell.ExecutionCompleted, 2: stepwell.ExecutionRunning, 3: stepwell.ExecutionFailed, 4: stepwell.ExecutionPaused,
			5: stepwell.ExecutionCancelled, 6: stepwell.ExecutionCompleted} {
			f.full(no, status)
		}
		equal(f, "nothing", f.prune(store.Retention{}), store.Removed{})
		equal(f, "removed", f.prune(store.Retention{Executions: sec(5)}), store.Removed{Executions: 2, Lines: 4})
		for no, want := range map[int64]string{1: "", 2: everything, 3: "", 4: everything, 5: everything, 6: everything} {
			equal(f, fmt.Sprint("left of ", no), f.left(no), want)
		}
		equal(f, "waiting", f.waiters("", 9), []string{"2 b do.b x", "4 b do.b x"})
		f.commit(f.next(2, 4), f.next(6, 4)) // and what stays goes on
	}},
	{"numbers of removed executions are not given again", func(f *fixture) {
		f.full(7, stepwell.ExecutionCompleted)
		equal(f, "removed", f.prune(store.Retention{Executions: sec(100)}).Executions, int64(1))
		equal(f, "next", f.numbers(f, 1), int64(8))
	}},
	{"an execution that was restarted since stays", func(f *fixture) {
		f.full(1, stepwell.ExecutionFailed)
		c := f.next(1, 4)
		c.Update = &store.Update{Status: stepwell.ExecutionRunning}
		f.commit(c)
		equal(f, "removed", f.prune(store.Retention{Executions: sec(100)}), store.Removed{})
		equal(f, "left", f.left(1), everything)
	}},
	{"the oldest go first, in batches", func(f *fixture) {
		for no := int64(1); no <= 7; no++ {
			f.full(8-no, stepwell.ExecutionCompleted)
		}
		for _, want := range []int{4, 1, 0} {
			_, _, err := f.Prune(f.Context(), store.Retention{Executions: sec(100), Batch: 3})
			f.must(err)
			list, err := f.Executions(f.Context(), store.Filter{})
			f.must(err)
			equal(f, "executions", len(list), want)
			if want > 0 {
				equal(f, "the newest", f.left(7), everything)
			}
		}
	}},
	{"a large execution goes as a whole", func(f *fixture) {
		f.full(1, stepwell.ExecutionRunning)
		for v := int64(4); v < 9; v++ {
			var rows []engine.StepRow
			for i := range int32(1000) {
				rows = append(rows, done(int32(v)*1000+i, 0, "{}"))
			}
			f.commit(f.next(1, v, rows...))
		}
		c := f.next(1, 9)
		c.Update = &store.Update{Status: stepwell.ExecutionCompleted, Ended: at(1)}
		f.commit(c)
		equal(f, "removed", f.prune(store.Retention{Executions: sec(100)}), store.Removed{Executions: 1, Lines: 2})
		equal(f, "left", f.left(1), "")
	}},
	{"log lines go earlier than their executions", func(f *fixture) {
		for no := int64(1); no <= 5; no++ {
			f.full(no, stepwell.ExecutionCompleted)
		}
		f.full(6, stepwell.ExecutionRunning)
		equal(f, "removed", f.prune(store.Retention{Logs: sec(4), Batch: 2}), store.Removed{Lines: 6})
		equal(f, "left", []string{f.left(3), f.left(4), f.left(6)}, []string{"row steps outputs log memo key", everything, everything})
		equal(f, "removed again", f.prune(store.Retention{Logs: sec(4), Batch: 2}), store.Removed{})
	}},
	{"start keys, signals and audit entries go by their age", func(f *fixture) {
		f.full(1, stepwell.ExecutionRunning)
		f.signal("old", "1", 0)
		f.signal("taken", "1", 0)
		f.signal("new", "1", 5000)
		c := f.next(1, 4)
		c.Taken = []string{"taken"}
		f.commit(c)
		f.must(f.AppendAudit(f.Context(), []store.AuditEntry{{At: sec(1), Actor: "old", Result: "ok"}, {At: sec(5), Actor: "new", Result: "ok"}}))
		equal(f, "removed", f.prune(store.Retention{Keys: sec(3), Audit: sec(3)}), store.Removed{Keys: 3, Audit: 1})
		equal(f, "left", f.left(1), "row steps outputs log lines memo")
		equal(f, "pending", f.pending("new", "old"), []string{"new 1"})
		entries, err := f.AuditEntries(f.Context(), store.AuditFilter{})
		f.must(err)
		equal(f, "entries", []any{len(entries), entries[0].Actor}, []any{1, "new"})
		equal(f, "a removed signal is fresh again", f.signal("taken", "1", 9), true)
	}},
	{"commits continue while old executions are removed", func(f *fixture) {
		for no := int64(1); no <= 40; no++ {
			f.full(no, stepwell.ExecutionCompleted)
		}
		f.begin(100)
		var busy sync.WaitGroup
		busy.Go(func() {
			for v := int64(2); v < 100; v++ {
				if err := f.Commit(f.Context(), []store.Commit{{Execution: 100, Version: v, Log: []byte(`{"t":1,"e":[]}`), Steps: []engine.StepRow{done(0, 1, "{}")}}}); err != nil {
					f.Error(err)
					return
				}
			}
		})
		equal(f, "removed", f.prune(store.Retention{Executions: sec(100), Batch: 3}).Executions, int64(40))
		busy.Wait()
		equal(f, "version", f.execution(100).Version, int64(99))
	}},
}

// blob stores a value and makes its file a week old.
func (f *fixture) blob(text string) (ref string) {
	f.Helper()
	ref, err := f.Blobs().Put(f.Context(), []byte(text))
	f.must(err)
	f.age(ref)
	return ref
}

func (f *fixture) age(ref string) {
	f.Helper()
	hash, _, _ := strings.Cut(strings.TrimPrefix(ref, "@sha256:"), ":")
	f.must(f.Blobs().(store.Sweeper).Touch(hash, time.Now().Add(-7*24*time.Hour)))
}

// has reports which of the blobs are there.
func (f *fixture) has(refs ...string) (out []bool) {
	f.Helper()
	for _, ref := range refs {
		_, err := f.Blobs().Load(f.Context(), ref)
		if err != nil {
			f.wantCode(err, stepwell.CodeNotFound)
		}
		out = append(out, err == nil)
	}
	return out
}

// end ends an execution with its version 3.
func (f *fixture) end(no int64) {
	f.Helper()
	c := f.next(no, 3)
	c.Update = &store.Update{Status: stepwell.ExecutionCompleted, Ended: at(no * 1000)}
	f.commit(c)
}

var blobs = []promise{
	{"a blob stays as long as an execution refers to it, in a row or in its log", func(f *fixture) {
		f.begin(1, 2)
		shared, own, logged := f.blob("shared"), f.blob("own"), f.blob("logged")
		f.commit(f.next(1, 2, done(0, 1, shared), done(1, 2, own)), f.next(2, 2, done(0, 1, shared)))
		c := store.Commit{Execution: 2, Version: 3, Log: f.body(3, nil, engine.Event{Kind: engine.Done, Epoch: 1, Output: []byte(logged), Kept: true}), Update: &store.Update{Status: stepwell.ExecutionCompleted, Ended: at(9000)}}
		f.commit(c)
		f.end(1)
		equal(f, "removed", f.prune(store.Retention{Executions: sec(2)}), store.Removed{Executions: 1})
		for _, ref := range []string{shared, own, logged} {
			f.age(ref)
		}
		equal(f, "removed later", f.prune(store.Retention{Executions: sec(2)}), store.Removed{Blobs: 1})
		equal(f, "there", f.has(shared, own, logged), []bool{true, false, true})
		equal(f, "removed", f.prune(store.Retention{Executions: sec(10)}).Executions, int64(1))
		equal(f, "a day has not passed", f.has(shared, logged), []bool{true, true})
		f.age(shared)
		f.age(logged)
		equal(f, "removed later", f.prune(store.Retention{Executions: sec(2)}), store.Removed{Blobs: 2})
	}},
	{"a blob stays as long as an object refers to it", func(f *fixture) {
		one, two, shared := f.blob("one"), f.blob("two"), f.blob("shared")
		first := object("m1", "", 0, `1`)
		first.Blobs = []string{one, shared, shared}
		second := object("m2", "", 0, `1`)
		second.Blobs = []string{shared}
		f.put(first, second)
		f.put(object("m1", "", 1, `2`)) // it says nothing of blobs
		equal(f, "removed", f.prune(store.Retention{Executions: sec(10)}), store.Removed{Blobs: 1})
		equal(f, "there", f.has(one, two, shared), []bool{true, false, true})
		bad := object("m1", "", 2, `3`)
		bad.Blobs = []string{one, "@sha256:00:1"}
		f.refused(stepwell.CodeInvalid, bad)
		none := object("m1", "", 2, `3`)
		none.Blobs = []string{}
		equal(f, "not read back", f.put(none)[0].Blobs, []string(nil))
		equal(f, "removed", f.prune(store.Retention{Executions: sec(10)}), store.Removed{Blobs: 1})
		equal(f, "there", f.has(one, shared), []bool{false, true})
		f.must(f.DeleteObject(f.Context(), "schedule", "m2", store.AnyRevision))
		equal(f, "removed without executions", f.prune(store.Retention{Blobs: true}), store.Removed{Blobs: 1})
	}},
	{"a blob that was stored today stays, also one that was there before", func(f *fixture) {
		again, fresh := f.blob("again"), f.blob("fresh")
		for _, text := range []string{"again", "new"} {
			_, err := f.Blobs().Put(f.Context(), []byte(text))
			f.must(err)
		}
		equal(f, "removed", f.prune(store.Retention{Executions: sec(10)}), store.Removed{Blobs: 1})
		equal(f, "there", f.has(again, fresh), []bool{true, false})
	}},
}

// ownTools reports whether the database is copied with tools of its own: then a backup is refused and writes nothing.
func (f *fixture) ownTools() bool {
	f.Helper()
	path := filepath.Join(f.TempDir(), "refused.db")
	err := f.Backup(f.Context(), path, nil)
	if stepwell.CodeOf(err) != stepwell.CodeInvalid {
		f.must(err)
		return false
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		f.Errorf("a refused backup has left %s: %v", path, err)
	}
	return true
}

var backups = []promise{
	{"a copy made while commits continue opens, is of one moment and contains its blobs", func(f *fixture) {
		f.begin(1, 2)
		if f.ownTools() {
			return
		}
		ref := f.blob("large")
		f.commit(f.next(1, 2, done(0, 1, ref)))
		f.put(object("s1", "nightly", 0, `{}`))
		for v := int64(2); v < 300; v++ { // some pages
			f.commit(f.next(2, v, done(int32(v), 0, `"`+strings.Repeat("x", 3000)+`"`)))
		}
		stop, busy := make(chan struct{}), sync.WaitGroup{}
		busy.Go(func() {
			for v := int64(3); ; v++ {
				select {
				case <-stop:
					return
				default:
				}
				row := done(int32(v), 0, "{}")
				row.Key = fmt.Sprint("s:", v)
				if err := f.Commit(f.Context(), []store.Commit{{Execution: 1, Version: v, Log: []byte(`{"t":1,"e":[]}`), Steps: []engine.StepRow{row}}}); err != nil {
					f.Error(err)
					return
				}
			}
		})
		place, calls, last := f.TempDir(), 0, [2]int{}
		err := f.Backup(f.Context(), filepath.Join(place, "store.db"), func(done, total int) { calls, last = calls+1, [2]int{done, total} })
		close(stop)
		busy.Wait()
		f.must(err)
		if calls < 2 || last[0] != last[1] || last[1] == 0 {
			f.Errorf("%d calls, the last says %v", calls, last)
		}
		source := f.Store
		f.Store = f.open(f.T, place)
		defer func() { f.must(f.Close()); f.Store = source }()
		x := f.execution(1)
		equal(f, "rows of the version", len(f.steps(1, store.StepFilter{Limit: 10_000, Statuses: []stepwell.StepStatus{stepwell.StepCompleted}})), int(x.Version)-1)
		equal(f, "blob", f.has(ref), []bool{true})
		equal(f, "object", f.object("nightly").ID, "s1")
		f.commit(f.next(1, x.Version+1)) // it is a database like any other
	}},
	{"a target that exists is left alone", func(f *fixture) {
		f.begin(1)
		path := filepath.Join(f.TempDir(), "store.db")
		f.must(os.WriteFile(path, []byte("mine"), 0o600))
		if !f.ownTools() {
			f.wantCode(f.Backup(f.Context(), path, nil), stepwell.CodeConflict)
		}
		raw, err := os.ReadFile(path)
		f.must(err)
		equal(f, "content", string(raw), "mine")
	}},
}
