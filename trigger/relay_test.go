package trigger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/trigger"
)

// picky is a sink that puts some executions off, so often, or fails as a whole.
type picky struct {
	off map[string]int

	mu   sync.Mutex
	fail error
	took []string
}

func (s *picky) Take(_ context.Context, list []trigger.Happened) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	var later trigger.LaterError
	for _, h := range list {
		if s.off[h.Execution] > 0 {
			s.off[h.Execution]--
			later.Put(h.No, errors.New("not now"))
			continue
		}
		s.took = append(s.took, h.Execution)
	}
	return later.OrNil()
}

func (s *picky) failing(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

func (s *picky) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.took, " ")
}

// What one sink cannot deal with now does not hold up what is behind it, nor the other sink; it is tried again, and stays
// in the outbox until all have taken it, over a restart too.
func TestRelayPutsOff(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		first, second := &picky{off: map[string]int{"b": 3}}, &picky{off: map[string]int{"a": 1}}
		start := func() running {
			relay := trigger.NewRelay(r.store, r.log, first, second)
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- relay.Run(ctx) }()
			return running{relay, func() {
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			}}
		}
		want := func(when, one, two string, left ...string) {
			t.Helper()
			synctest.Wait()
			if first.text() != one || second.text() != two {
				t.Errorf("%s: the sinks have %q and %q, want %q and %q", when, first.text(), second.text(), one, two)
			}
			list, err := r.store.Outbox(t.Context(), 0, 100)
			var have []string
			for _, o := range list {
				have = append(have, o.Execution)
			}
			if err != nil || !slices.Equal(have, left) {
				t.Errorf("%s: the outbox has %v, want %v, error %v", when, have, left, err)
			}
		}
		relay := start()
		for _, id := range []string{"a", "b", "c"} {
			ended(t, r.store, id, "", stepwell.ExecutionCompleted)
		}
		relay.Wake()
		want("at once", "a c", "b c", "a", "b")
		ended(t, r.store, "d", "", stepwell.ExecutionCompleted)
		relay.Wake()
		want("what comes then", "a c d", "b c d", "a", "b")
		pass(1500 * time.Millisecond)
		want("a second later", "a c d", "b c d a", "b")
		relay.die()
		relay = start()
		want("after a restart all that is left comes again", "a c d", "b c d a b", "b")
		pass(time.Minute)
		want("in the end", "a c d b", "b c d a b")

		second.failing(errors.New("the store is unavailable"))
		ended(t, r.store, "e", "", stepwell.ExecutionCompleted)
		relay.Wake()
		want("as long as a sink fails", "a c d b e", "b c d a b", "e")
		second.failing(nil)
		pass(time.Minute)
		want("when it does not", "a c d b e e", "b c d a b e")
		relay.die()
	})
}

// Many that are put off, over several pages, hold up none behind them.
func TestRelayPutsManyOff(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		const entries = 1200
		sink := &picky{off: map[string]int{}}
		for i := range entries {
			id := fmt.Sprint(i)
			if i < entries-1 {
				sink.off[id] = 2
			}
			ended(t, r.store, id, "", stepwell.ExecutionCompleted)
		}
		relay := trigger.NewRelay(r.store, r.log, sink)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- relay.Run(ctx) }()
		relay.Wake()
		synctest.Wait()
		if at := sink.text(); at != fmt.Sprint(entries-1) {
			t.Errorf("at once were taken %.100s", at)
		}
		pass(10 * time.Second)
		if n := len(strings.Fields(sink.text())); n != entries {
			t.Errorf("%d were taken, want %d", n, entries)
		}
		if list, err := r.store.Outbox(t.Context(), 0, 10); err != nil || len(list) != 0 {
			t.Errorf("left are %d, %v", len(list), err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
