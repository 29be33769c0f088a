package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// Events reads a page of the step log and tells it as events: what the log says, and the ends of
// steps, which their rows say. The view step_event tells the same in SQL, for a whole execution at
// once; a test holds them together. Its cost is that of the page, whatever the size of the execution;
// what was written before the log named all rows (step_log.unnamed) costs a look at every row.
func (s *Store) Events(ctx context.Context, execution, after int64, n int) ([]store.Event, error) {
	t := &teller{execution: execution, least: limit(n, 1000, 10_000), started: map[attempt]bool{}}
	if err := t.tell(ctx, s, after); err != nil {
		return nil, fault("read "+s.path, err)
	}
	return t.events, nil
}

// teller makes events of one page of the log.
type teller struct {
	execution int64
	least     int
	events    []store.Event
	batches   []*engine.Batch
	versions  []int64
	unnamed   []int32 // steps whose rows the page's commits wrote though its events may not name them
	all       bool    // they are not known
	rows      map[int32]endRow
	started   map[attempt]bool // attempts whose start has been told
}

type attempt struct {
	idx   int32
	epoch uint32
}

// endRow is what a step's row adds to the log.
type endRow struct {
	version int64
	status  stepwell.StepStatus
	worker  string
	ended   int64
	detail  string
}

func (t *teller) tell(ctx context.Context, s *Store, after int64) error {
	if err := t.page(ctx, s, after); err != nil || len(t.batches) == 0 {
		return err
	}
	if err := t.look(ctx, s, after, t.versions[len(t.versions)-1]); err != nil {
		return err
	}
	for i, b := range t.batches {
		t.batch(t.versions[i], b)
	}
	for idx, r := range t.rows {
		if r.status.Terminal() {
			t.add(r.version, idx, r.status.String(), r.ended, r.worker, r.detail)
		}
	}
	slices.SortStableFunc(t.events, func(a, b store.Event) int {
		return cmp.Or(cmp.Compare(a.Version, b.Version), a.At.Compare(b.At), cmp.Compare(rank(a.Type), rank(b.Type)), cmp.Compare(a.Step, b.Step))
	})
	return t.name(ctx, s)
}

// page reads whole versions until there are enough events.
func (t *teller) page(ctx context.Context, s *Store, after int64) error {
	rows, err := s.read.QueryContext(ctx, s.sql["log_page"], t.execution, after)
	if err != nil {
		return err
	}
	defer rows.Close()
	for count := 0; count < t.least && rows.Next(); {
		var version int64
		var body, unnamed []byte
		if err := rows.Scan(&version, &body, &unnamed); err != nil {
			return err
		}
		b, err := decode(body)
		if err != nil {
			return err
		}
		if unnamed == nil {
			t.all = true
		} else if t.unnamed, err = appendRuns(t.unnamed, unnamed); err != nil {
			return err
		}
		t.batches, t.versions = append(t.batches, b), append(t.versions, version)
		count += len(b.Events) + len(b.Queued)
	}
	return rows.Err()
}

// rank orders events of the same moment: what comes from outside, ends, then what they set off.
func rank(event string) int {
	switch event {
	case "started":
		return 1
	case "queued":
		return 3
	case "start", "recovered", "cancel", "pause", "resume", "restart", "timer", "lost", "admitted", "settled":
		return 0
	}
	return 2
}

// decode reads a batch with the steps that it queued.
func decode(body []byte) (*engine.Batch, error) {
	b, err := engine.DecodeBatch(body)
	if err != nil {
		return nil, err
	}
	var q struct {
		Q json.RawMessage `json:"q"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return nil, err
	}
	b.Queued, err = appendRuns(b.Queued[:0], q.Q)
	return b, err
}

// appendRuns reads the runs [[first, count], …]; nothing at all is none.
func appendRuns(to []int32, raw []byte) ([]int32, error) {
	if len(raw) == 0 {
		return to, nil
	}
	var runs [][2]int32
	if err := json.Unmarshal(raw, &runs); err != nil {
		return nil, err
	}
	for _, run := range runs {
		if run[1] < 0 || run[1] > engine.MaxSteps {
			return nil, &stepwell.Error{Code: stepwell.CodeInternal, Message: fmt.Sprintf("the step log is damaged: %d steps at once", run[1])}
		}
		for i := range run[1] {
			to = append(to, run[0]+i)
		}
	}
	return to, nil
}

// look reads what the page needs beside the log.
func (t *teller) look(ctx context.Context, s *Store, after, last int64) error {
	t.rows = map[int32]endRow{}
	list, err := json.Marshal(t.named())
	if err != nil {
		return err
	}
	query, args := s.sql["rows_named"], []any{t.execution, after, last, string(list)}
	if t.all {
		query, args = s.sql["rows_between"], args[:3]
	}
	if err := s.each(ctx, t.row, query, args...); err != nil {
		return err
	}
	return s.each(ctx, func(rows *sql.Rows) error {
		var a attempt
		err := rows.Scan(&a.idx, &a.epoch)
		t.started[a] = true
		return err
	}, s.sql["seen_running"], t.execution, after, string(list))
}

// named are the steps that the page is about.
func (t *teller) named() []int32 {
	list := t.unnamed
	for _, b := range t.batches {
		for i := range b.Events {
			list = append(list, b.Events[i].Idx)
			for j := range b.Events[i].Parts {
				list = append(list, b.Events[i].Parts[j].Idx)
			}
		}
	}
	slices.Sort(list)
	return append([]int32{}, slices.Compact(list)...)
}

func (t *teller) row(rows *sql.Rows) error {
	var idx int32
	var r endRow
	var worker sql.NullString
	var ended sql.NullInt64
	var raw []byte
	if err := rows.Scan(&idx, &r.version, &r.status, &worker, &ended, &raw); err != nil {
		return err
	}
	var extra engine.StepRow
	if err := decodeRare(raw, &extra); err != nil {
		return err
	}
	if r.worker, r.ended = worker.String, ended.Int64; extra.Error != nil {
		r.detail = extra.Error.Message
	}
	t.rows[idx] = r
	return nil
}

// each calls f for every row of a query.
func (s *Store) each(ctx context.Context, f func(*sql.Rows) error, query string, args ...any) error {
	return eachRow(ctx, s.read, f, query, args...)
}

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func eachRow(ctx context.Context, db querier, f func(*sql.Rows) error, query string, args ...any) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

const nobody = -1 // the index of events that are about no step

func (t *teller) add(version int64, idx int32, what string, at int64, worker, detail string) {
	t.events = append(t.events, store.Event{Version: version, Step: idx, Type: what, At: time.UnixMicro(at).UTC(), Worker: worker, Detail: detail})
}

var kindNames = [...]string{engine.Start: "start", engine.Done: "completed", engine.Failed: "failed", engine.Skipped: "skipped",
	engine.Waiting: "waiting", engine.Running: "", engine.Spawned: "spawned", engine.TimerDue: "timer", engine.Recovered: "recovered",
	engine.Lost: "lost", engine.Cancel: "cancel", engine.Pause: "pause", engine.Resume: "resume", engine.Restart: "restart",
	engine.DoneAll: "", engine.Admit: "admitted", engine.Settled: "settled"}

func (t *teller) batch(version int64, b *engine.Batch) {
	for i := range b.Events {
		t.event(version, &b.Events[i])
	}
	for _, idx := range b.Queued {
		t.add(version, idx, "queued", b.At, "", "")
	}
}

func (t *teller) event(version int64, ev *engine.Event) {
	idx, worker := ev.Idx, ev.Worker
	r, has := t.rows[ev.Idx]
	has = has && r.version == version
	switch ev.Kind {
	case engine.Done, engine.Failed, engine.Skipped, engine.Waiting, engine.Running:
		if key := (attempt{idx, ev.Epoch}); ev.Started > 0 && !t.started[key] {
			t.started[key] = true
			by := worker
			if by == "" && has {
				by = r.worker
			}
			t.add(version, idx, "started", ev.Started, by, "")
		}
		if ev.Kind == engine.Running || ev.Kind != engine.Waiting && has && r.status.Terminal() {
			return
		}
	case engine.Settled:
		if has && r.status.Terminal() { // the row tells how the step ended
			return
		}
	case engine.Start, engine.Recovered, engine.Cancel, engine.Pause, engine.Resume, engine.Restart, engine.Admit:
		idx = nobody
	}
	if int(ev.Kind) < len(kindNames) && kindNames[ev.Kind] != "" {
		t.add(version, idx, kindNames[ev.Kind], ev.At, worker, detail(ev))
	}
}

func detail(ev *engine.Event) string {
	switch {
	case ev.Failure != nil:
		return ev.Failure.Message
	case ev.Kind == engine.Restart:
		return ev.Step
	case ev.Kind == engine.Spawned:
		keys := make([]string, len(ev.Spawns))
		for i := range ev.Spawns {
			keys[i] = ev.Spawns[i].Key
		}
		return strings.Join(keys, ", ")
	}
	return ev.Reason
}
