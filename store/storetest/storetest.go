// Package storetest is the definition of a store: what every database must do, one subtest per
// promise. A database's own tests call Run and add what only it can do.
//
// Stability: a promise may be added; none is taken away without a line in CHANGELOG.md.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// Store is what is tested.
type Store = store.Store

// Open opens the database that belongs to a place, which is a directory of the test's own. A place
// that was never used is an empty database; the same place again is the same database, even while
// it is open already. A copy that Backup has written to the file store.db of a place is taken over and is the database
// of that place. The suite closes what it opens.
type Open func(t *testing.T, place string) Store

// Run holds a store to all promises, or to those of some groups.
func Run(t *testing.T, open Open, groups ...string) {
	for _, group := range []struct {
		name     string
		promises []promise
	}{
		{"commit", commits}, {"owners", owners}, {"recovery", recovery}, {"steps", steps}, {"states", stateTables}, {"events", events}, {"executions", executions},
		{"logs", logs}, {"requests", requests}, {"values", values}, {"size", sizes},
		{"objects", objects}, {"origin", origins}, {"signals", signals}, {"outbox", outbox}, {"outside", outside}, {"progress", progress}, {"usage", usages}, {"audit", audits}, {"waiting", waits},
		{"totals", totals}, {"retention", retention}, {"blobs", blobs}, {"backup", backups},
	} {
		if len(groups) > 0 && !slices.Contains(groups, group.name) {
			continue
		}
		t.Run(group.name, func(t *testing.T) {
			for _, p := range group.promises {
				t.Run(p.name, func(t *testing.T) {
					f := &fixture{T: t, open: open, place: t.TempDir(), rows: rows{seen: map[[2]int64]bool{}}}
					f.Store = f.again()
					p.check(f)
				})
			}
		})
	}
}

type promise struct {
	name  string
	check func(*fixture)
}

// fixture is one database and the shorthand to work with it.
type fixture struct {
	*testing.T
	Store
	open  Open
	place string
	rows  rows
}

// rows are the step rows that a test has written, by execution and index.
type rows struct {
	mu   sync.Mutex
	seen map[[2]int64]bool
}

// honest is a store whose commits say which of their rows were written before, as the engine does (StepRow.Again).
type honest struct {
	Store
	rows *rows
}

// Commit implements store.Committer.
func (s honest) Commit(ctx context.Context, commits []store.Commit) error {
	s.rows.mu.Lock()
	written := map[[2]int64]bool{}
	for _, c := range commits {
		for i := range c.Steps {
			key := [2]int64{c.Execution, int64(c.Steps[i].Idx)}
			c.Steps[i].Again = s.rows.seen[key] || written[key]
			written[key] = true
		}
	}
	s.rows.mu.Unlock()
	err := s.Store.Commit(ctx, commits)
	if err == nil {
		s.rows.mu.Lock()
		defer s.rows.mu.Unlock()
		maps.Copy(s.rows.seen, written)
	}
	return err
}

// again opens the same database once more.
func (f *fixture) again() Store {
	f.Helper()
	s := honest{f.open(f.T, f.place), &f.rows}
	f.Cleanup(func() { // harmless after a promise has closed it itself
		if err := s.Close(); err != nil {
			f.Errorf("close: %v", err)
		}
	})
	return s
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) wantCode(err error, code stepwell.Code) {
	f.Helper()
	if got := stepwell.CodeOf(err); got != code {
		f.Fatalf("error %v has code %q, want %q", err, got, code)
	}
}

// wantRefused checks an error for the executions whose commits cannot be made, and why.
func (f *fixture) wantRefused(err error, why store.Why, executions ...int64) {
	f.Helper()
	var got []int64
	r, ok := errors.AsType[*store.RefusedError](err)
	if ok {
		for _, x := range r.Refusals {
			if code := stepwell.CodeOf(x.Err); x.Why != why || (why == store.VersionGap) != (code == stepwell.CodeInternal) || why != store.VersionGap && code != stepwell.CodeConflict {
				f.Fatalf("execution %d is refused for reason %d with %v, want reason %d", x.Execution, x.Why, x.Err, why)
			}
			got = append(got, x.Execution)
		}
	}
	if !slices.Equal(got, executions) {
		f.Fatalf("error %v refuses %v, want %v", err, got, executions)
	}
}

// start is the moment at which the suite's executions begin, in µs.
const start = int64(1_800_000_000_000_000)

// at is a moment some ms after the start.
func at(ms int64) int64 { return start + ms*1000 }

func id(no int64) string { return fmt.Sprintf("0190a000-0000-7000-8000-%012d", no) }

// three is the definition of the suite's executions: a, then b, then c.
const three = `{"name":"three","steps":[{"id":"a","action":"do.a"},` +
	`{"id":"b","name":"The second","action":"do.b","params":{"n":1},"depends_on":["a"]},` +
	`{"id":"c","action":"do.c","depends_on":["a","b"]}]}`

func execution(no int64) *store.Execution {
	return &store.Execution{No: no, ID: id(no), Pipeline: "three", Definition: []byte("hash"), Params: []byte(`{"x":1}`), Trigger: "manual", Dir: "/srv",
		Status: stepwell.ExecutionRunning, Created: time.UnixMicro(start).UTC(), Started: time.UnixMicro(at(1)).UTC(),
		Progress: engine.Progress{Total: 3, Running: 1}}
}

// body is the record of a batch.
func (f *fixture) body(ms int64, queued []int32, list ...engine.Event) []byte {
	f.Helper()
	for i := range list {
		if list[i].At == 0 {
			list[i].At = at(ms)
		}
	}
	raw, err := engine.AppendBatch(nil, &engine.Batch{At: at(ms), Events: list, Queued: queued})
	f.must(err)
	return raw
}

// first is version 1 of an execution, which queues step a.
func (f *fixture) first(no int64) store.Commit {
	f.Helper()
	return store.Commit{Execution: no, Version: 1, Create: execution(no),
		Log: f.body(1, []int32{0}, engine.Event{Kind: engine.Start, Begin: &engine.Begin{Params: []byte(`{"x":1}`), Revision: 1}})}
}

// begin stores version 1 of executions.
func (f *fixture) begin(numbers ...int64) {
	f.Helper()
	f.must(f.PutDefinition(f.Context(), []byte("hash"), []byte(three)))
	var list []store.Commit
	for _, no := range numbers {
		list = append(list, f.first(no))
	}
	f.must(f.Commit(f.Context(), list))
}

// next is a later version with step rows and nothing of interest in its log.
func (f *fixture) next(no, version int64, rows ...engine.StepRow) store.Commit {
	f.Helper()
	return store.Commit{Execution: no, Version: version, Log: f.body(version, nil), Steps: rows}
}

func (f *fixture) commit(list ...store.Commit) {
	f.Helper()
	f.must(f.Commit(f.Context(), list))
}

// done is the row of a completed step.
func done(idx, seq int32, output string) engine.StepRow {
	return engine.StepRow{Idx: idx, Seq: seq, Status: stepwell.StepCompleted, Attempt: 1, Output: []byte(output), Worker: "w1",
		Queued: at(1), Started: at(2), Ended: at(3)}
}

func (f *fixture) execution(no int64) *store.Execution {
	f.Helper()
	x, err := f.Execution(f.Context(), id(no))
	f.must(err)
	return x
}

func (f *fixture) steps(no int64, filter store.StepFilter) []store.Step {
	f.Helper()
	list, err := f.Steps(f.Context(), no, filter)
	f.must(err)
	return list
}

// all takes a sequence to its end.
func all[V any](f *fixture, seq iter.Seq2[V, error]) (out []V) {
	f.Helper()
	for v, err := range seq {
		f.must(err)
		out = append(out, v)
	}
	return out
}

// equal compares what prints alike.
func equal(f *fixture, what string, got, want any) {
	f.Helper()
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		f.Fatalf("%s:\n got %s\nwant %s", what, g, w)
	}
}
