package memory

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// Execution implements store.Reader.
func (s *Store) Execution(ctx context.Context, id string) (*store.Execution, error) {
	found, err := s.Beginning(ctx, id, 2)
	if err != nil {
		return nil, err
	}
	return store.TheExecution(found, id)
}

// Beginning implements store.Reader.
func (s *Store) Beginning(_ context.Context, id string, limit int) ([]store.Execution, error) {
	if id == "" {
		return nil, store.NoID()
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if no, ok := s.ids[id]; ok {
		return []store.Execution{s.executions[no].shown()}, nil
	}
	var found []store.Execution
	for _, no := range s.numbers {
		if x := s.executions[no]; strings.HasPrefix(x.row.ID, id) {
			found = append(found, x.shown())
		}
	}
	slices.SortFunc(found, func(a, b store.Execution) int { return cmp.Compare(a.ID, b.ID) })
	return found[:min(len(found), limit)], nil
}

// shown is an execution's row as readers see it.
func (x *execution) shown() store.Execution {
	row := x.row
	row.Owner = 0
	return row
}

// Executions implements store.Reader.
func (s *Store) Executions(_ context.Context, f store.Filter) (out []store.Execution, err error) {
	if f.Before != "" {
		if _, err := s.Execution(context.Background(), f.Before); err != nil {
			return nil, err
		}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	end := len(s.numbers)
	if no, ok := s.ids[f.Before]; ok {
		end, _ = slices.BinarySearch(s.numbers, no)
	}
	limit := store.Limit(f.Limit, 50, 1000)
	for i := end - 1; i >= 0 && len(out) < limit; i-- {
		if x := s.executions[s.numbers[i]]; selects(&f, &x.row) {
			row := x.shown()
			row.Outputs = nil
			out = append(out, row)
		}
	}
	return out, nil
}

func selects(f *store.Filter, x *store.Execution) bool {
	for _, pair := range [][2]string{{f.Pipeline, x.Pipeline}, {f.Workflow, x.Workflow}, {f.Job, x.Job}, {f.Project, x.Project}, {f.Lesson, x.Lesson}, {f.Partition, x.Partition}, {f.Trigger, x.Trigger}, {f.Parent, x.Parent}} {
		if pair[0] != "" && pair[0] != pair[1] {
			return false
		}
	}
	return (len(f.Statuses) == 0 || slices.Contains(f.Statuses, x.Status)) && (f.WorkflowVersion == 0 || f.WorkflowVersion == x.WorkflowVersion) && (!f.Footprints || x.Progress.Footprints) &&
		!x.Created.Before(f.From) && (f.To.IsZero() || x.Created.Before(f.To))
}

// UnfinishedRuns implements store.Reader.
func (s *Store) UnfinishedRuns(_ context.Context, after string, limit int) (out []store.Execution, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	from := 0
	if no, ok := s.ids[after]; ok {
		from, _ = slices.BinarySearch(s.numbers, no+1)
	} else if after != "" {
		from = len(s.numbers)
		for i, no := range s.numbers {
			if s.executions[no].row.ID > after {
				from = i
				break
			}
		}
	}
	for _, no := range s.numbers[from:] {
		if len(out) == store.Limit(limit, 50, 1000) {
			break
		}
		if row := s.executions[no].shown(); !row.Status.Terminal() && row.Status != stepwell.ExecutionPaused && row.Lesson != "" {
			row.Outputs = nil
			out = append(out, row)
		}
	}
	return out, nil
}

// Logs implements store.Reader.
func (s *Store) Logs(_ context.Context, execution int64, f store.LogFilter) (out []store.LogLine, err error) {
	least, since, until, n, tail, err := f.Bounds()
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	x := s.find(execution)
	if x == nil {
		return nil, nil
	}
	for i := range x.lines {
		l := x.lines[i]
		level, _ := store.LevelNumber(l.Level) // it was checked
		at := l.At.UnixMicro()
		if l.Seq > f.After && (f.Before <= 0 || l.Seq < f.Before) && level >= least && at >= since && at < until && (f.Attempt == 0 || f.Attempt == l.Attempt) && (f.StepKey == "" || f.StepKey == l.StepKey) {
			if out = append(out, l); len(out) == n && !tail {
				return out, nil
			}
		}
	}
	return out[max(0, len(out)-n):], nil
}

// LogTexts implements store.Reader.
func (s *Store) LogTexts(ctx context.Context, execution int64, f store.LogFilter) (store.LogTexts, error) {
	lines, err := s.Logs(ctx, execution, f)
	return store.TextsOf(lines), err
}

// LogSpans implements store.Reader.
func (s *Store) LogSpans(_ context.Context, execution int64, n int) (out []store.LogSpan, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	x := s.find(execution)
	if x == nil || len(x.lines) == 0 {
		return nil, nil
	}
	lo, hi := x.lines[0].Seq, x.lines[len(x.lines)-1].Seq+1
	width := (hi-lo-1)/int64(store.Limit(n, 100, store.MaxLogSpans)) + 1
	last := int64(-1)
	for i := range x.lines {
		l := &x.lines[i]
		if at := (l.Seq - lo) / width; at != last {
			last = at
			out = append(out, store.LogSpan{First: l.Seq, Until: min(hi, lo+(at+1)*width), At: l.At})
		}
		span := &out[len(out)-1]
		span.Lines++
		switch l.Level {
		case "debug":
			span.Debug++
		case "warning":
			span.Warnings++
		case "error":
			span.Errors++
		}
	}
	return out, nil
}

// LogWarnings implements store.Reader.
func (s *Store) LogWarnings(_ context.Context, executions []int64, most int) (map[int64]int, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := map[int64]int{}
	for _, no := range executions {
		x, left := s.find(no), most
		for i := 0; x != nil && i < len(x.lines) && left > 0; i++ {
			if x.lines[i].Level == "warning" {
				out[no]++
			}
			if x.lines[i].Level != "info" {
				left--
			}
		}
	}
	return out, nil
}

// Events implements store.Reader.
func (s *Store) Events(_ context.Context, execution, after int64, limit int) ([]engine.HistoryEvent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.find(execution)
	if x == nil {
		return nil, nil
	}
	h := &engine.History{Rows: map[int32]engine.HistoryRow{}, Started: map[engine.Attempt]bool{}}
	var written []int32
	enough := store.Limit(limit, 1000, 10_000)
	for v, count := max(after, 0), 0; v < int64(len(x.log)) && count < enough; v++ {
		b, err := engine.DecodeBatch(v+1, x.log[v])
		if err == nil {
			written, err = engine.AppendRuns(written, []byte(x.unnamed[v]))
		}
		if err != nil {
			return nil, err
		}
		h.Batches = append(h.Batches, b)
		count += len(b.Events) + len(b.Queued)
	}
	if len(h.Batches) == 0 {
		return nil, nil
	}
	steps := h.Steps(written)
	for _, idx := range steps {
		if row := x.steps[idx]; row != nil {
			h.Rows[idx] = engine.HistoryRow{Version: row.version, StepRow: row.StepRow}
		}
	}
	for a, version := range x.seen {
		if _, ok := slices.BinarySearch(steps, a.Idx); ok && version <= after {
			h.Started[a] = true
		}
	}
	top, err := s.top(x.row.Definition)
	for i := range top {
		h.IDs = append(h.IDs, top[i].ID)
	}
	return h.Events(), err
}

// UsageOf implements store.Reader.
func (s *Store) UsageOf(_ context.Context, kind, id string) (stepwell.Spending, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.usage[[2]string{kind, id}], nil
}

// UsageIn implements store.Reader.
func (s *Store) UsageIn(_ context.Context, kind, from, before string, limit int) ([]store.Used, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []store.Used
	for key, sum := range s.usage {
		if key[0] == kind && key[1] >= from && key[1] < before {
			out = append(out, store.Used{Kind: kind, ID: key[1], Spending: sum})
		}
	}
	slices.SortFunc(out, func(a, b store.Used) int { return cmp.Compare(a.ID, b.ID) })
	return out[:min(len(out), limit)], nil
}

// EndedIn implements store.Reader.
func (s *Store) EndedIn(_ context.Context, from, before time.Time, limit int) ([]store.Ended, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []store.Ended
	for _, x := range s.executions {
		row := &x.row
		if !row.Status.Terminal() || row.Ended.Before(from) || !row.Ended.Before(before) {
			continue
		}
		e := store.Ended{At: row.Ended, Workflow: row.Workflow, Status: row.Status, Cost: row.Progress.Cost}
		if !row.Started.IsZero() {
			e.Took = row.Ended.Sub(row.Started)
		}
		out = append(out, e)
	}
	slices.SortStableFunc(out, func(a, b store.Ended) int { return a.At.Compare(b.At) })
	return out[max(0, len(out)-limit):], nil
}

// Totals implements store.Keeper.
func (s *Store) Totals(_ context.Context, since time.Time) (*store.Totals, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	t := &store.Totals{Executions: map[string]int64{}, Since: map[string]int64{}}
	for _, x := range s.executions {
		status := x.row.Status
		t.Executions[status.String()]++
		if !status.Terminal() || x.row.Ended.Before(since) {
			continue
		}
		t.Since[status.String()]++
		if status == stepwell.ExecutionCompleted {
			begin := x.row.Started
			if begin.IsZero() {
				begin = x.row.Created
			}
			t.Completed++
			t.Durations += x.row.Ended.Sub(begin)
		}
	}
	return t, nil
}
