package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
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
// once; a test holds them together. Its cost is that of the page and of a look at every row.
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
	last := after
	count := 0
	for e, err := range s.StepLog(ctx, t.execution, after) {
		if err != nil {
			return err
		}
		b, err := decode(e.Body)
		if err != nil {
			return err
		}
		t.batches, t.versions, last = append(t.batches, b), append(t.versions, e.Version), e.Version
		if count += len(b.Events) + len(b.Queued); count >= t.least {
			break
		}
	}
	if len(t.batches) == 0 {
		return nil
	}
	if err := t.look(ctx, s, after, last); err != nil {
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

// rank orders events of the same moment: what comes from outside, ends, then what they set off.
func rank(event string) int {
	switch event {
	case "started":
		return 1
	case "queued":
		return 3
	case "start", "recovered", "cancel", "pause", "resume", "restart", "timer", "lost":
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
		Q [][2]int32 `json:"q"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return nil, err
	}
	b.Queued = b.Queued[:0]
	for _, run := range q.Q {
		if run[1] < 0 || run[1] > engine.MaxSteps {
			return nil, &stepwell.Error{Code: stepwell.CodeInternal, Message: fmt.Sprintf("the step log is damaged: %d steps queued at once", run[1])}
		}
		for i := range run[1] {
			b.Queued = append(b.Queued, run[0]+i)
		}
	}
	return b, nil
}

// look reads what the page needs beside the log.
func (t *teller) look(ctx context.Context, s *Store, after, last int64) error {
	t.rows = map[int32]endRow{}
	err := s.each(ctx, func(rows *sql.Rows) error {
		var idx int32
		var r endRow
		var worker sql.NullString
		var ended sql.NullInt64
		var raw []byte
		var tries int
		if err := rows.Scan(&idx, &r.version, &r.status, &tries, &worker, &ended, &raw); err != nil {
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
	}, s.sql["rows_between"], t.execution, after, last)
	if err != nil {
		return err
	}
	return s.each(ctx, func(rows *sql.Rows) error {
		var idx, epoch sql.NullInt64
		if err := rows.Scan(&idx, &epoch); err != nil {
			return err
		}
		t.started[attempt{int32(idx.Int64), uint32(epoch.Int64)}] = true
		return nil
	}, s.sql["seen_running"], t.execution, after)
}

// each calls f for every row of a query.
func (s *Store) each(ctx context.Context, f func(*sql.Rows) error, query string, args ...any) error {
	rows, err := s.read.QueryContext(ctx, query, args...)
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
	engine.Lost: "lost", engine.Cancel: "cancel", engine.Pause: "pause", engine.Resume: "resume", engine.Restart: "restart"}

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
	case engine.Start, engine.Recovered, engine.Cancel, engine.Pause, engine.Resume, engine.Restart:
		idx = nobody
	}
	if int(ev.Kind) < len(kindNames) {
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

// name gives the events their steps' keys.
func (t *teller) name(ctx context.Context, s *Store) error {
	ids, err := s.stepIDs(ctx, t.execution)
	if err != nil {
		return err
	}
	var rest []int32
	for i := range t.events {
		if idx := t.events[i].Step; int(idx) >= len(ids) {
			rest = append(rest, idx)
		}
	}
	keys := map[int32]string{}
	if len(rest) > 0 {
		slices.Sort(rest)
		list, err := json.Marshal(slices.Compact(rest))
		if err != nil {
			return err
		}
		if err := s.each(ctx, func(rows *sql.Rows) error {
			var idx int32
			var key sql.NullString
			err := rows.Scan(&idx, &key)
			keys[idx] = key.String
			return err
		}, s.sql["rare_keys"], t.execution, string(list)); err != nil {
			return err
		}
	}
	for i := range t.events {
		switch e := &t.events[i]; {
		case e.Step < 0:
		case int(e.Step) < len(ids):
			e.StepKey = ids[e.Step]
		case keys[e.Step] != "":
			e.StepKey = keys[e.Step]
		default:
			e.StepKey = fmt.Sprintf("#%d", e.Step)
		}
	}
	return nil
}

// stepIDs are the ids of the top level of an execution's definition. The last one is kept: whoever
// follows a log asks for the same again and again.
func (s *Store) stepIDs(ctx context.Context, execution int64) ([]string, error) {
	var hash string
	err := s.read.QueryRowContext(ctx, s.sql["execution_definition"], execution).Scan(&hash)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s.names.mu.Lock()
	defer s.names.mu.Unlock()
	if s.names.hash == hash && s.names.ids != nil {
		return s.names.ids, nil
	}
	var ids []string
	err = s.each(ctx, func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	}, s.sql["step_ids"], []byte(hash))
	if err == nil {
		s.names.hash, s.names.ids = hash, ids
	}
	return ids, err
}
