package sqlite

import (
	"crypto/sha256"
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
	hash := sha256.Sum256([]byte(definition))
	if err := s.PutDefinition(t.Context(), hash[:], []byte(definition)); err != nil {
		t.Fatal(err)
	}
	err := s.Commit(t.Context(), []store.Commit{{Execution: no, Version: 1, Log: []byte(`{"t":1,"e":[{"k":1,"d":0,"begin":{"revision":1}}]}`), Create: &store.Execution{
		ID: fmt.Sprintf("execution-%06d", no), Pipeline: "bench", Definition: hash[:], Created: time.UnixMicro(1), Status: stepwell.ExecutionRunning}}})
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

// BenchmarkGroup measures a commit of 100 executions with a start or an end and 2 ended steps each.
func BenchmarkGroup(b *testing.B) {
	const runs = 100
	s := open(b, Options{Path: filepath.Join(b.TempDir(), "bench.db"), Exclusive: true})
	begin(b, s, 1, `{"steps":[]}`)
	commits := make([]store.Commit, runs)
	log := []byte(`{"t":1700000000000000,"e":[[2,0,1,-100,-50],[2,1,1,-80,-40]],"q":[[2,2]]}`)
	rows := []engine.StepRow{{Status: stepwell.StepCompleted, Attempt: 1, Output: log[:20], Queued: 1, Started: 2, Ended: 3}, {Idx: 1, Status: stepwell.StepCompleted, Attempt: 1, Output: log[:20]}}
	for no := int64(2); b.Loop(); no += runs {
		for i := range commits {
			commits[i] = store.Commit{Execution: no + int64(i), Version: 1, Log: log, Steps: rows, Create: &store.Execution{ID: fmt.Sprintf("execution-%09d", no+int64(i)), Definition: []byte("h"), Created: time.UnixMicro(1)}}
		}
		if err := s.Commit(b.Context(), commits); err != nil {
			b.Fatal(err)
		}
		for i := range commits {
			commits[i].Version, commits[i].Create, commits[i].Update = 2, nil, &store.Update{Status: stepwell.ExecutionCompleted, Ended: 5}
		}
		if err := s.Commit(b.Context(), commits); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*runs)/b.Elapsed().Seconds(), "runs/s")
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
