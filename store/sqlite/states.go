package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// States implements store.StateReader. The queued lists are read first: a step that is dispatched meanwhile has a newer row.
func (s *Store) States(ctx context.Context, execution int64, of []int32) ([]store.StepState, error) {
	if of != nil {
		some, err := json.Marshal(of)
		if err != nil {
			return nil, err
		}
		states := make([]store.StepState, 0, len(of))
		err = s.each(ctx, newStateScan("").into(&states), s.sql["states_of"], execution, string(some))
		return states, fault("read "+s.path, err)
	}
	runs, err := list(ctx, s, func(rows *sql.Rows, r *store.QueuedRun) error {
		return rows.Scan(&r.First, &r.End, &r.Version, &r.At)
	}, s.sql["queued"], execution)
	if err != nil {
		return nil, err
	}
	var end int
	var worker sql.NullString
	var over sql.NullBool
	err = s.each(ctx, func(rows *sql.Rows) error { return rows.Scan(&end, &worker, &over) }, s.sql["states_end"], execution)
	if err != nil {
		return nil, fault("read "+s.path, err)
	}
	states, err := s.allStates(ctx, execution, end, worker.String, over.Bool)
	if err != nil {
		return nil, fault("read "+s.path, err)
	}
	return store.WithQueued(states, runs, engine.MaxSteps), nil
}

// manyStates is the number of rows from which on two connections read a half each, unless they already do so for another caller:
// two of the four remain for all other reads. Of an execution that is not over one reads all: two would see different commits.
const manyStates = 10_000

// allStates reads all rows of an execution, whose indexes are below end. The worker has probably run most of them.
func (s *Store) allStates(ctx context.Context, execution int64, end int, worker string, over bool) ([]store.StepState, error) {
	read := func(ctx context.Context, from, to int, states *[]store.StepState) error {
		return s.each(ctx, newStateScan(worker).into(states), s.sql["states"], execution, from, to, worker)
	}
	states := make([]store.StepState, 0, end) // a list that grows costs a quarter of the time
	if end < manyStates || !over || !s.halves.TryLock() {
		err := read(ctx, 0, engine.MaxSteps, &states)
		return states, err
	}
	defer s.halves.Unlock()
	middle := end / 2
	upper := states[middle:middle]
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return read(ctx, middle, engine.MaxSteps, &upper) })
	lower := states[:0:middle]
	g.Go(func() error { return read(ctx, 0, middle, &lower) })
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return append(states[:len(lower)], upper...), nil // they overlap only where indexes have no row
}

// stateScan reads rows of step as states.
type stateScan struct {
	worker string            // that 0 stands for
	names  map[string]string // of others: each is kept once
	values [7]any            // of a row: as the driver has them, for database/sql converts them by way of reflection
	to     [7]any
}

func newStateScan(worker string) *stateScan {
	c := &stateScan{worker: worker, names: map[string]string{}}
	for i := range c.values {
		c.to[i] = &c.values[i]
	}
	return c
}

// into appends each row to a list.
func (c *stateScan) into(states *[]store.StepState) func(*sql.Rows) error {
	return func(rows *sql.Rows) error {
		if err := rows.Scan(c.to[:]...); err != nil {
			return err
		}
		*states = append(*states, store.StepState{})
		return c.set(&(*states)[len(*states)-1])
	}
}

func (c *stateScan) set(x *store.StepState) error {
	var what int64
	for i, to := range [...]*int64{&what, &x.Version, &x.Queued, &x.Started, &x.Ended} {
		switch v := c.values[i].(type) {
		case nil:
		case int64:
			*to = v
		default:
			return fmt.Errorf("a row of step has %T where a number belongs", v)
		}
	}
	x.Idx, x.Attempt, x.Status = int32(what>>32), int(what>>8&0xffffff), stepwell.StepStatus(what&0xff)
	switch worker := c.values[5].(type) {
	case nil:
	case int64:
		x.Worker = c.worker
	case string:
		known, ok := c.names[worker]
		if !ok {
			known = worker
			c.names[known] = known
		}
		x.Worker = known
	default:
		return fmt.Errorf("step %d: its worker is %T", x.Idx, worker)
	}
	switch rare := c.values[6].(type) {
	case nil:
		return nil
	case string:
		return x.SetExtra(rare)
	default:
		return fmt.Errorf("step %d: its rare columns are %T", x.Idx, rare)
	}
}
