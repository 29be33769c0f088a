package postgres

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// tables are the slots' tables that there are.
func tables(t *testing.T, s *Store) (out []string) {
	t.Helper()
	rows, err := s.pool.Query(t.Context(), `SELECT c.relname FROM pg_class c WHERE c.relispartition AND c.relkind = 'r' AND c.relname LIKE 'step_log%' ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		out = append(out, name)
	}
	return out
}

func reserve(t *testing.T, s *Store) int64 {
	t.Helper()
	no, err := s.Numbers(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	return no
}

// TestSlots: new executions go to new tables once the others are old; one call may write to many; tables whose executions
// retention has removed are dropped, and made again for a process that still has numbers there.
func TestSlots(t *testing.T) {
	s := open(t, Options{SlotAge: time.Nanosecond})
	other := open(t, Options{URL: s.o.URL}) // learns of the slots by their numbers
	var numbers []int64
	for slot := int64(1); slot <= 3; slot++ {
		no := reserve(t, s)
		if no != slot<<32+1 {
			t.Fatalf("the first number of slot %d is %d", slot, no)
		}
		numbers = append(numbers, no)
	}
	commit(t, other, first(numbers[0]), first(numbers[1]), first(numbers[2]))
	commit(t, other, next(numbers[2], 2, ""), next(numbers[0], 2, ""), ended(numbers[1], 2))
	for i, no := range numbers {
		checkBooks(t, s, no, 2, i == 1)
		if err := other.AppendLogs(t.Context(), []store.LogLine{{Execution: no, At: time.UnixMicro(1), Level: "info", Message: "x"}}); err != nil {
			t.Fatal(err)
		}
		if lines, err := s.Logs(t.Context(), no, store.LogFilter{}); err != nil || len(lines) != 1 {
			t.Errorf("%d lines, error %v", len(lines), err)
		}
	}
	prune := func(want ...string) {
		t.Helper()
		for more := true; more; {
			var err error
			if _, more, err = s.Prune(t.Context(), store.Retention{Executions: time.UnixMicro(100)}); err != nil {
				t.Fatal(err)
			}
		}
		if got := tables(t, s); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("tables %v, want %v", got, want)
		}
	}
	prune("step_log_1", "step_log_3") // the newest stays
	checkBooks(t, s, numbers[0], 2, false)
	commit(t, other, ended(numbers[0], 3), ended(numbers[2], 3))
	prune("step_log_3")
	if list, err := s.Executions(t.Context(), store.Filter{}); err != nil || len(list) > 0 {
		t.Errorf("%d executions are left, error %v", len(list), err)
	}
	late := numbers[1] + 1
	commit(t, other, first(late))
	commit(t, other, next(late, 2, ""))
	checkBooks(t, s, late, 2, false)
	prune("step_log_2", "step_log_3")
}

// TestSlotsTogether: of many processes that find the tables old one makes new ones.
func TestSlotsTogether(t *testing.T) {
	address := fresh(t)
	var all sync.WaitGroup
	var mu sync.Mutex
	seen := map[int64]bool{}
	for range 4 {
		s := open(t, Options{URL: address, SlotAge: time.Nanosecond})
		all.Go(func() {
			for range 3 {
				no, err := s.Numbers(t.Context(), 10)
				mu.Lock()
				if err != nil || seen[no] {
					t.Errorf("number %d, there before: %v, error %v", no, seen[no], err)
				}
				seen[no] = true
				mu.Unlock()
				c := first(no)
				c.Create.ID = fmt.Sprint(no)
				if err := s.Commit(t.Context(), []store.Commit{c}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// TestGrownTables: plans that were made while the tables were empty still find rows by their keys when there are many.
func TestGrownTables(t *testing.T) {
	s := open(t, Options{})
	commit(t, s, first(1))
	commit(t, s, next(1, 2, ""))
	commit(t, s, ended(1, 3))
	commit(t, s, first(2))
	if _, err := s.pool.Exec(t.Context(), `INSERT INTO execution_live (no, id, pipeline, status, definition, caused_by, dir, created, priority)
		SELECT n, 'many-' || n, 'p', 1, '', '', '', 0, 0 FROM generate_series(1000, 60000) n`); err != nil {
		t.Fatal(err)
	}
	commit(t, s, next(2, 2, ""))
	c := next(2, 3, "")
	c.Update = &store.Update{Status: stepwell.ExecutionPaused}
	commit(t, s, c)
	commit(t, s, ended(2, 4))
	pid := s.commits.link.conn.PID()
	s.commits.link.close() // a session tells its counts at its end
	there := func(query string, args ...any) (n int64) {
		t.Helper()
		if err := s.pool.QueryRow(t.Context(), query, args...).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for there(`SELECT count(*) FROM pg_stat_activity WHERE pid = $1`, pid) > 0 {
		time.Sleep(10 * time.Millisecond)
	}
	if n := there(`SELECT idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'execution_live'`); n == 0 {
		t.Error("the counts do not show what was read")
	}
	if n := there(`SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'execution_live'`); n > 1000 {
		t.Errorf("%d rows were read one after the other", n)
	}
}

// TestKeyPlans: no statement of a commit reads a table or an index from its beginning, whatever the server believes of its size.
func TestKeyPlans(t *testing.T) {
	s := open(t, Options{})
	commit(t, s, first(1)) // opens the connection
	for _, q := range []string{`VACUUM ANALYZE execution_live`, `VACUUM ANALYZE execution_past`, `VACUUM ANALYZE step_0`, `VACUUM ANALYZE memo`, `VACUUM ANALYZE outside_work`} {
		if _, err := s.pool.Exec(t.Context(), `DELETE FROM execution_live`); err != nil {
			t.Fatal(err)
		}
		if _, err := s.pool.Exec(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	b := newBatch()
	slot := b.slot(1, map[int64]bool{0: true})
	heads := b.heads()
	for i, r := range slices.Concat(heads[:], b.all, []*rows{slot.log, slot.steps, slot.upserts, slot.supersede}) {
		if r == b.taken {
			continue // it may read all signals that are pending
		}
		nulls := strings.TrimSuffix(strings.Repeat("NULL, ", len(r.columns)), ", ")
		plan, err := s.commits.link.conn.Exec(t.Context(), fmt.Sprintf("PREPARE plan%d AS %s; EXPLAIN EXECUTE plan%[1]d (%[3]s)", i, r.sql, nulls)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		lines := plan[len(plan)-1].Rows
		for n, line := range lines {
			text := string(line[0])
			if !regexp.MustCompile(`(Index.*|Seq|Heap) Scan`).MatchString(text) {
				continue
			}
			if n+1 == len(lines) || !strings.Contains(string(lines[n+1][0]), "Cond: ") {
				t.Errorf("%.60s… reads everything:\n%s", r.sql, bytes.Join(slices.Concat(lines...), []byte("\n")))
			}
		}
	}
}
