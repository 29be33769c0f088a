package postgres

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
)

// benchServer is a server as people run it: it waits for the disk. STEPWELL_TEST_POSTGRES names another.
func benchServer(b *testing.B) *Store {
	b.Helper()
	address := os.Getenv("STEPWELL_TEST_POSTGRES")
	if address == "" {
		address = postgrestest.New(b, "fsync=on", "full_page_writes=on", "shared_buffers=512MB", "max_wal_size=4GB").URL()
	}
	return open(b, Options{URL: address})
}

// backend is the CPU time of the process that serves the commits, in µs; 0 where it is not known.
func backend(s *Store) float64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.commits.link.conn.PID()))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	user, _ := strconv.ParseFloat(fields[11], 64) // clock ticks of 10 ms
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) * 10_000
}

// measured runs f and says what an execution or step costs.
func measured(b *testing.B, s *Store, unit string, each int, f func()) {
	commit(b, s, first(1))
	before, sent := backend(s), s.commits.link.statements
	commits := 0
	b.ReportAllocs()
	for b.Loop() {
		f()
		commits++
	}
	n := float64(commits * each)
	b.ReportMetric(n/b.Elapsed().Seconds(), unit+"/s")
	b.ReportMetric((backend(s)-before)/n, "server-µs/"+unit)
	b.ReportMetric(float64(s.commits.link.statements-sent)/float64(commits), "statements/op")
}

// BenchmarkCommit measures commits of one execution with n ended steps each: a chain (1) and a fan-out (500).
func BenchmarkCommit(b *testing.B) {
	for _, n := range []int{1, 500} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			s := benchServer(b)
			rows := make([]engine.StepRow, n)
			batch := engine.Batch{Events: make([]engine.Event, n)}
			output := []byte(`{"value":1234567890}`)
			var log []byte
			v := int64(1)
			measured(b, s, "step", n, func() {
				v++
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
			})
		})
	}
}

// BenchmarkGroup measures 100 executions of two steps each, in a commit that starts and one that ends them.
func BenchmarkGroup(b *testing.B) {
	const runs = 100
	s := benchServer(b)
	commits := make([]store.Commit, runs)
	log := []byte(`{"t":1700000000000000,"e":[[2,0,1,-100,-50],[2,1,1,-80,-40]],"q":[[2,2]]}`)
	rows := []engine.StepRow{{Status: stepwell.StepCompleted, Attempt: 1, Output: log[:20], Queued: 1, Started: 2, Ended: 3}, {Idx: 1, Status: stepwell.StepCompleted, Attempt: 1, Output: log[:20]}}
	no := int64(2)
	measured(b, s, "execution", runs, func() {
		for i := range commits {
			commits[i] = store.Commit{Execution: no + int64(i), Version: 1, Log: log, Steps: rows, Create: &store.Execution{ID: fmt.Sprintf("x-%09d", no+int64(i)), Definition: []byte("h"), Created: time.UnixMicro(1)}}
		}
		if err := s.Commit(b.Context(), commits); err != nil {
			b.Fatal(err)
		}
		for i := range commits {
			commits[i].Version, commits[i].Create, commits[i].Steps, commits[i].Update = 2, nil, nil, &store.Update{Status: stepwell.ExecutionCompleted, Ended: 5}
		}
		if err := s.Commit(b.Context(), commits); err != nil {
			b.Fatal(err)
		}
		no += runs
	})
}
