package sqlite

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// open opens a database for a test and closes it at the end.
func open(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// begin creates execution no with version 1.
func begin(t testing.TB, s *Store, no int64, definition string) {
	t.Helper()
	if err := s.PutDefinition(t.Context(), []byte(definition), []byte(definition)); err != nil {
		t.Fatal(err)
	}
	err := s.Commit(t.Context(), []store.Commit{{Execution: no, Version: 1, Log: []byte(`{"t":1,"e":[{"k":1,"d":0}]}`), Create: &store.Execution{
		ID: fmt.Sprintf("execution-%06d", no), Pipeline: "bench", Definition: []byte(definition), Created: time.UnixMicro(1), Status: stepwell.ExecutionRunning}}})
	if err != nil {
		t.Fatal(err)
	}
}

// BenchmarkCommit measures commits of one execution with n ended steps each: a chain (1), many
// small ones (4 steps of 80 executions would be the same size as 320) and a fan-out (500).
func BenchmarkCommit(b *testing.B) {
	for _, sync := range []string{"full", "normal"} {
		for _, n := range []int{1, 500} {
			b.Run(fmt.Sprintf("%s/%d", sync, n), func(b *testing.B) { benchmarkCommit(b, sync, n) })
		}
	}
}

func benchmarkCommit(b *testing.B, sync string, n int) {
	s := open(b, Options{Path: filepath.Join(b.TempDir(), "bench.db"), Exclusive: true, Synchronous: sync})
	begin(b, s, 1, `{"steps":[]}`)
	rows := make([]engine.StepRow, n)
	batch := engine.Batch{Events: make([]engine.Event, n)}
	output := []byte(`{"value":1234567890}`)
	var log []byte
	b.ReportAllocs()
	for v := int64(2); b.Loop(); v++ {
		now := int64(1_700_000_000_000_000) + v*500
		batch.At = now
		for i := range rows {
			idx := int32(v)*int32(n) + int32(i)
			rows[i] = engine.StepRow{Idx: idx, Seq: idx, Status: stepwell.StepCompleted, Attempt: 1, Output: output, Worker: "worker-1", Queued: now - 300, Started: now - 200, Ended: now}
			batch.Events[i] = engine.Event{Kind: engine.Done, Idx: idx, Epoch: 1, At: now, Started: now - 200}
		}
		log, _ = engine.AppendBatch(log[:0], &batch)
		if err := s.Commit(b.Context(), []store.Commit{{Execution: 1, Version: v, Log: log, Steps: rows}}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkOpen measures opening an up-to-date database the way the conductor does, and a new one.
func BenchmarkOpen(b *testing.B) {
	b.Run("existing", func(b *testing.B) {
		path := filepath.Join(b.TempDir(), "bench.db")
		s, err := Open(b.Context(), Options{Path: path})
		if err != nil {
			b.Fatal(err)
		}
		s.Close()
		benchmarkOpen(b, func() string { return path })
	})
	b.Run("new", func(b *testing.B) {
		dir, n := b.TempDir(), 0
		benchmarkOpen(b, func() string { n++; return filepath.Join(dir, fmt.Sprintf("%d.db", n)) })
	})
}

func benchmarkOpen(b *testing.B, path func() string) {
	for b.Loop() {
		s, err := Open(b.Context(), Options{Path: path(), Exclusive: true})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
