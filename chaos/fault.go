package chaos

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/rueidis"
)

// lease is how long a node or a worker may say nothing before others take over (fleet, desk): a process that is frozen for longer
// is replaced while it still believes that it holds its work.
const lease = 15 * time.Second

// faults are what may happen, by name.
var faults = map[string]func(*trial, context.Context) error{
	"node-killed":    func(t *trial, ctx context.Context) error { return t.replace(ctx, t.nodes, (*member).kill) },
	"node-stopped":   func(t *trial, ctx context.Context) error { return t.replace(ctx, t.nodes, (*member).stop) },
	"node-frozen":    func(t *trial, ctx context.Context) error { return t.freeze(ctx, t.nodes) },
	"worker-killed":  func(t *trial, ctx context.Context) error { return t.replace(ctx, t.workers, (*member).kill) },
	"worker-stopped": func(t *trial, ctx context.Context) error { return t.replace(ctx, t.workers, (*member).stop) },
	"worker-frozen":  func(t *trial, ctx context.Context) error { return t.freeze(ctx, t.workers) },
	"database-cut":   (*trial).cut,
	"database-stall": (*trial).stall,
	"queue-flushed":  func(t *trial, ctx context.Context) error { return t.command(ctx, "FLUSHALL") },
	"queue-cut":      func(t *trial, ctx context.Context) error { return t.command(ctx, "CLIENT", "KILL", "TYPE", "NORMAL") },
}

// Faults are the names of all faults.
func Faults() []string { return slices.Sorted(maps.Keys(faults)) }

// disturb lets faults happen until ctx ends. Each is over before the next, except that what was lost is being made up for.
func (t *trial) disturb(ctx context.Context) {
	for ctx.Err() == nil {
		t.pause(ctx, 0, 2*t.Pause)
		name := t.Faults[t.chance.IntN(len(t.Faults))]
		if ctx.Err() != nil {
			return
		}
		t.say("%s", name)
		t.mu.Lock()
		t.result.Faults[name]++
		t.mu.Unlock()
		if err := faults[name](t, ctx); err != nil {
			t.wrong("%s: %v", name, err)
			return
		}
	}
}

// between is a time by chance.
func between(chance *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(chance.Int64N(int64(most-least)))
}

func (t *trial) pause(ctx context.Context, least, most time.Duration) {
	wait(ctx, between(t.chance, least, most))
}

// wait waits, at most until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// replace ends a process, and starts another after a while.
func (t *trial) replace(ctx context.Context, of []*member, end func(*member) error) error {
	m := of[t.chance.IntN(len(of))]
	if err := end(m); err != nil {
		return err
	}
	t.pause(ctx, 0, 3*time.Second)
	return m.start(context.WithoutCancel(ctx))
}

// freeze stops a process for up to half more than a lease.
func (t *trial) freeze(ctx context.Context, of []*member) error {
	m := of[t.chance.IntN(len(of))]
	m.mu.Lock()
	p := m.process
	m.mu.Unlock()
	t.excuse()
	if err := p.Freeze(); err != nil {
		return err
	}
	t.pause(ctx, 100*time.Millisecond, lease*3/2)
	t.excuse()
	return p.Thaw()
}

// excuse lets processes end by themselves: one that finds that it has been replaced does.
func (t *trial) excuse() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.excused = time.Now().Add(2 * lease)
}

// cut ends all connections to the database but its own.
func (t *trial) cut(ctx context.Context) error {
	t.excuse()
	_, err := t.db.Exec(context.WithoutCancel(ctx), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'stepwell'`)
	return err
}

// command has the Redis server do something; an answer that is lost with the connection is none.
func (t *trial) command(ctx context.Context, words ...string) error {
	err := t.redis.Do(context.WithoutCancel(ctx), t.redis.B().Arbitrary(words...).Build()).Error()
	if _, refused := rueidis.IsRedisErr(err); refused {
		return err
	}
	return nil
}

// stall holds the log of all executions and the list of nodes for up to three leases: nothing is committed and nobody beats.
func (t *trial) stall(ctx context.Context) error {
	t.excuse()
	tx, err := t.db.Begin(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	if _, err = tx.Exec(context.WithoutCancel(ctx), `LOCK TABLE node, step_log IN ACCESS EXCLUSIVE MODE`); err == nil {
		t.pause(ctx, 100*time.Millisecond, lease)
	}
	t.excuse()
	if ended := tx.Rollback(context.WithoutCancel(ctx)); err == nil {
		err = ended
	}
	return err
}
