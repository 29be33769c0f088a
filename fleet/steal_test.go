package fleet_test

import (
	"context"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/store"
)

// counter counts the executions that a node has let go of.
type counter struct{ evicted atomic.Int64 }

func (c *counter) Enabled(context.Context, slog.Level) bool { return true }
func (c *counter) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c *counter) WithGroup(string) slog.Handler            { return c }
func (c *counter) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "let go") {
		c.evicted.Add(1)
	}
	return nil
}

// steal takes all executions of other nodes, again and again, as if they were dead.
func (m *member) steal(ctx context.Context, t *testing.T, url string) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for ctx.Err() == nil {
		rows, err := conn.Query(ctx, `UPDATE execution_live SET owner = $1 WHERE no IN (SELECT no FROM execution_live WHERE owner <> $1 FOR UPDATE SKIP LOCKED) RETURNING id`, m.node.No())
		if err != nil {
			break
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			break
		}
		for _, id := range ids {
			_ = m.Recover(ctx, id) // lost to the other one again, perhaps
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	if ctx.Err() == nil {
		t.Error("the thief has failed")
	}
}

// Two nodes that take all executions of each other do every step once, and leave nothing running.
func TestTwoOwners(t *testing.T) {
	url := database(t)
	const each = 100
	count := &counter{}
	slow := handler("t.slow", func(ctx context.Context, c *actionCall) (any, error) {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return map[string]any{"v": c.Params["n"]}, nil
	})
	p := parts{lease: 5 * time.Second, beat: 500 * time.Millisecond, log: slog.New(count)}
	p.actions = append(p.actions, slow)
	a := join(t, url, p)
	b := join(t, url, p)
	stealing, stop := context.WithCancel(t.Context())
	var thieves, starts sync.WaitGroup
	for _, m := range []*member{a, b} {
		thieves.Go(func() { m.steal(stealing, t, url) })
		starts.Go(func() {
			for range each {
				if _, err := m.start(t.Context(), strings.ReplaceAll(six, "t.echo", "t.slow")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	starts.Wait()
	until(t, "a lost race", func() bool { return count.evicted.Load() > 0 })
	time.Sleep(2 * time.Second)
	stop()
	thieves.Wait()
	ended(t, a.store)
	until(t, "empty memories", func() bool { return len(a.Active())+len(b.Active()) == 0 })
	t.Log(count.evicted.Load(), "races were lost")
	checkBooks(t, url, 2*each, sixOutputs)
}

// The stray of a node, which it owns and nobody has in memory, is taken up again.
func TestStray(t *testing.T) {
	url := database(t)
	g := newGate()
	p := parts{lease: time.Hour, beat: 50 * time.Millisecond}
	p.actions = append(p.actions, g.action())
	a := join(t, url, p)
	id := a.begin(t, gated)
	<-g.begun
	x, err := a.store.Execution(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	overtake(t, a, x.No, x.Version+1) // another node won a race and died before it said whose the execution is
	close(g.open)
	a.ended(t, id, stepwell.ExecutionCompleted)
	if owner := a.owner(t, id); owner != a.node.No() {
		t.Errorf("owner %d", owner)
	}
}

// learns has a node hold two executions in which nothing happens, and another one go on with one of them. The node has to take that up again, after
// then.
func learns(t *testing.T, url string, then func()) {
	t.Helper()
	g := newGate()
	a := join(t, url, parts{lease: time.Hour, beat: 50 * time.Millisecond, actions: []action.Action{g.action()}})
	other, id := a.begin(t, gated), a.begin(t, gated)
	<-g.begun
	<-g.begun
	x, err := a.store.Execution(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	overtake(t, a, x.No, x.Version+1)
	then()
	if began := <-g.begun; began != id {
		t.Errorf("%s began again, want %s", began, id)
	}
	close(g.open)
	a.ended(t, id, stepwell.ExecutionCompleted)
	a.ended(t, other, stepwell.ExecutionCompleted)
}

// A node that holds an execution in which nothing happens learns that another one has gone on with it, although no commit of its own is
// refused and the execution is still its own.
func TestIdleCopy(t *testing.T) { learns(t, database(t), func() {}) }

// An execution that waits is given to another node, which knows its former owner: that one lets go of it, and of its slot, and the new
// one takes it up, and the signal that had come before.
func TestIdleElsewhere(t *testing.T) {
	const waits = "name: waits\nsettings: {concurrency: {key: k, limit: 1}}\nsteps:\n  - {id: w, action: t.wait}\n"
	wait := handler("t.wait", func(context.Context, *action.Call) (any, error) {
		return nil, action.Await("event:k", time.Time{}, nil)
	})
	url := database(t)
	a, b := join(t, url, slotted(t, wait)), join(t, url, slotted(t, wait))
	id := a.begin(t, waits)
	until(t, "the step to wait", func() bool {
		list, err := a.store.Awaiting(t.Context(), []string{"event:k"})
		return err == nil && len(list) == 1
	})
	if err := b.Recover(t.Context(), id); stepwell.CodeOf(err) != stepwell.CodeConflict {
		t.Fatalf("the execution of another node: %v", err)
	}
	give(t, url, b.node.No())
	if _, err := b.store.PutSignal(t.Context(), store.Signal{Key: "event:k", ID: "1", Body: []byte(`{"outputs":{"v":7}}`), At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	b.ended(t, id, stepwell.ExecutionCompleted)
	until(t, "empty memories", func() bool { return len(a.Active())+len(b.Active()) == 0 })
	noSeats(t, b.store)
}

// logReader is a store in which something happens before a step log is read.
type logReader struct {
	conductor.Store
	before func()
}

func (l logReader) StepLog(ctx context.Context, execution, after int64) iter.Seq2[store.LogEntry, error] {
	l.before()
	return l.Store.StepLog(ctx, execution, after)
}

// An execution that another node ends while this one reads it to take it up does not stay in memory.
func TestEndedWhileTakenUp(t *testing.T) {
	url := database(t)
	g := newGate()
	b := join(t, url, parts{lease: time.Hour, actions: []action.Action{g.action()}})
	id := b.begin(t, gated)
	<-g.begun
	read := 0
	a := join(t, url, parts{lease: time.Hour, actions: []action.Action{g.action()}, store: func(s conductor.Store) conductor.Store {
		return logReader{s, func() {
			read++
			close(g.open)
			b.ended(t, id, stepwell.ExecutionCompleted)
		}}
	}})
	give(t, url, a.node.No())
	if err := a.Recover(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if active := a.Active(); read != 1 || len(active) > 0 {
		t.Errorf("read %d times, in memory: %v", read, active)
	}
}
