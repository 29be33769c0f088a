package chaos

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell/redislink"
)

// nodeLease and workerLease are how long a server or a worker may say nothing before others take over (fleet, desk): a process that
// is frozen for longer is replaced while it still believes that it holds its work.
const (
	nodeLease   = 5 * time.Second
	workerLease = 15 * time.Second
)

// lists are all lists of steps in Redis.
const lists = "pipeline:steps*"

// faults are what may happen, by name.
var faults = map[string]func(*trial, context.Context) error{
	"node-killed":    func(t *trial, ctx context.Context) error { return t.replace(ctx, (*member).kill, t.nodes) },
	"node-stopped":   func(t *trial, ctx context.Context) error { return t.replace(ctx, (*member).stop, t.nodes) },
	"node-frozen":    func(t *trial, ctx context.Context) error { return t.freeze(ctx, t.nodes, max(nodeLease, t.lease)) },
	"worker-killed":  func(t *trial, ctx context.Context) error { return t.replace(ctx, (*member).kill, t.workers) },
	"worker-stopped": func(t *trial, ctx context.Context) error { return t.replace(ctx, (*member).stop, t.workers) },
	"worker-frozen":  func(t *trial, ctx context.Context) error { return t.freeze(ctx, t.workers, t.lease) },
	"worker-and-node-killed": func(t *trial, ctx context.Context) error {
		return t.replace(ctx, (*member).kill, t.workers, t.nodes)
	},
	"owners-swapped": (*trial).swap,
	"database-cut":   (*trial).cut,
	"database-stall": func(t *trial, ctx context.Context) error {
		return t.stall(ctx, t.length(100*time.Millisecond, 3*nodeLease))
	},
	"database-slow": func(t *trial, ctx context.Context) error {
		return t.often(ctx, func(ctx context.Context) error { return t.stall(ctx, 50*time.Millisecond) })
	},
	"queue-flushed": func(t *trial, ctx context.Context) error { return t.command(ctx, "FLUSHALL") },
	"queue-cut":     func(t *trial, ctx context.Context) error { return t.command(ctx, "CLIENT", "KILL", "TYPE", "NORMAL") },
	"queue-stalled": func(t *trial, ctx context.Context) error {
		return t.still(ctx, t.length(100*time.Millisecond, nodeLease))
	},
	"queue-slow": func(t *trial, ctx context.Context) error {
		return t.often(ctx, func(ctx context.Context) error { return t.still(ctx, 20*time.Millisecond) })
	},
	"queue-popped": func(t *trial, ctx context.Context) error {
		return t.often(ctx, func(ctx context.Context) error { return t.eachList(ctx, "RPOP", "10") })
	},
	"queue-doubled": func(t *trial, ctx context.Context) error {
		return t.often(ctx, func(ctx context.Context) error { return t.eachList(ctx, "COPIES") })
	},
}

// Faults are the names of all faults.
func Faults() []string { return slices.Sorted(maps.Keys(faults)) }

// disturb lets faults happen until ctx ends. Each is over before the next, except that what was lost is being made up for. A round of
// Each has one of them happen up to three times, first when some of its executions have ended.
func (t *trial) disturb(ctx context.Context, names []string) {
	if t.Each > 0 {
		first := min(int64(t.InFlight)+1+t.chance.Int64N(int64(t.Each)/4+1), int64(t.Each)) // others are in the middle of their work
		for t.next.Load() < first && ctx.Err() == nil {
			wait(ctx, time.Millisecond)
		}
	}
	begun := time.Now()
	for i := 0; ctx.Err() == nil; i++ {
		if t.Each == 0 || i > 0 {
			t.pause(ctx, 0, 2*t.Pause)
		}
		name := names[t.chance.IntN(len(names))]
		if ctx.Err() != nil || t.Each > 0 && i > 0 && (i == 3 || time.Since(begun) > nodeLease || t.next.Load() >= int64(t.Each)) {
			return
		}
		t.say("%s", name)
		t.mu.Lock()
		t.result.Faults[name]++
		t.mu.Unlock()
		if err := t.faults[name](t, ctx); err != nil {
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

// length is how long a fault lasts: by chance, in a round of Each as long as it may.
func (t *trial) length(least, most time.Duration) time.Duration {
	if t.Each > 0 {
		return most
	}
	return between(t.chance, least, most)
}

// often repeats something for a while.
func (t *trial) often(ctx context.Context, do func(context.Context) error) error {
	for until := time.Now().Add(t.length(100*time.Millisecond, 2*time.Second)); ctx.Err() == nil && time.Now().Before(until); {
		if err := do(ctx); err != nil {
			return err
		}
		t.pause(ctx, 0, 40*time.Millisecond)
	}
	return nil
}

// replace ends a process of each kind at once, and starts others after a while.
func (t *trial) replace(ctx context.Context, end func(*member) error, kinds ...[]*member) error {
	var chosen []*member
	var ending errgroup.Group
	for _, of := range kinds {
		m := of[t.chance.IntN(len(of))]
		chosen = append(chosen, m)
		ending.Go(func() error { return end(m) })
	}
	if err := ending.Wait(); err != nil {
		return err
	}
	t.pause(ctx, 0, 3*time.Second)
	for _, m := range slices.Backward(chosen) { // a worker needs a server
		if err := m.start(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// freeze stops a process for up to half more than a lease.
func (t *trial) freeze(ctx context.Context, of []*member, lease time.Duration) error {
	m := of[t.chance.IntN(len(of))]
	m.mu.Lock()
	p := m.process
	m.mu.Unlock()
	t.excuse()
	if err := p.Freeze(); err != nil {
		return err
	}
	wait(ctx, t.length(100*time.Millisecond, lease*3/2))
	t.excuse()
	return p.Thaw()
}

// swap gives executions to other servers, again and again, while those that have them go on with them.
func (t *trial) swap(ctx context.Context) error {
	return t.often(ctx, func(ctx context.Context) error {
		return t.exec(ctx, `WITH alive AS (SELECT array_agg(no ORDER BY no) AS no FROM node WHERE until > now())
			UPDATE execution_live x SET owner = alive.no[1 + (x.no + $1) % cardinality(alive.no)] FROM alive WHERE cardinality(alive.no) > 0`, t.chance.Int64N(100))
	})
}

// excuse lets processes end by themselves: one that finds that it has been replaced does.
func (t *trial) excuse() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.excused = time.Now().Add(2 * workerLease)
}

// mayEnd reports whether a process may end by itself now.
func (t *trial) mayEnd() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.stopping && time.Now().Before(t.excused)
}

// cut ends all connections to the database but its own.
func (t *trial) cut(ctx context.Context) error {
	t.excuse()
	return t.exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'stepwell'`)
}

// command has the Redis server do something; an answer that is lost with the connection is none.
func (t *trial) command(ctx context.Context, words ...string) error {
	err := t.redis.Do(context.WithoutCancel(ctx), t.redis.B().Arbitrary(words...).Build()).Error()
	if err == nil || redislink.Transient(err) {
		return nil
	}
	return err
}

// still has the Redis server answer nobody for a while, as behind a line that is cut.
func (t *trial) still(ctx context.Context, length time.Duration) error {
	err := t.command(ctx, "CLIENT", "PAUSE", strconv.FormatInt(length.Milliseconds(), 10), "ALL")
	wait(ctx, length)
	return err
}

// eachList has something happen to the messages of each list: RPOP takes some and drops them, COPIES adds each once more.
func (t *trial) eachList(ctx context.Context, do string, more ...string) error {
	keys, err := t.redis.Do(ctx, t.redis.B().Keys().Pattern(lists).Build()).AsStrSlice()
	if err != nil {
		return nil // the connection was lost with another fault
	}
	for _, key := range keys {
		words := append([]string{do, key}, more...)
		if do == "COPIES" {
			messages, err := t.redis.Do(ctx, t.redis.B().Lrange().Key(key).Start(0).Stop(99).Build()).AsStrSlice()
			if err != nil || len(messages) == 0 {
				continue
			}
			words = append([]string{"LPUSH", key}, messages...)
		}
		if err := t.command(ctx, words...); err != nil {
			return err
		}
	}
	return nil
}

// stall holds the log of all executions and the list of nodes: nothing is committed and nobody beats.
func (t *trial) stall(ctx context.Context, length time.Duration) error {
	t.excuse()
	tx, err := t.lock(ctx, "node, step_log")
	if err != nil {
		return err
	}
	wait(ctx, length)
	t.excuse()
	if err = tx.Rollback(context.WithoutCancel(ctx)); err != nil && away(err) { // it ended with its connection
		return nil
	}
	return err
}
