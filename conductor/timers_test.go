package conductor

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stepwell/stepwell/engine"
)

// The heap against a sorted list: due timers come in order, and no others do.
func TestTimerHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h timerHeap
		var want []int64
		now := int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "add") {
				at := rapid.Int64Range(0, 100).Draw(t, "at")
				h.add(timer{run: at % 3, Timer: engine.Timer{At: at}})
				want = append(want, at)
				slices.Sort(want)
				continue
			}
			now = rapid.Int64Range(now, 100).Draw(t, "now")
			n := 0
			for n < len(want) && want[n] <= now {
				n++
			}
			var got []int64
			for _, d := range h.due(now) {
				got = append(got, d.At)
			}
			if !slices.Equal(got, want[:n]) {
				t.Fatalf("due at %d: %v, want %v", now, got, want[:n])
			}
			want = want[n:]
			wait := maxWait
			if len(want) > 0 {
				wait = time.Duration(want[0]-now) * time.Microsecond
			}
			if d := h.wait(now); d != wait {
				t.Fatalf("waits %s, want %s", d, wait)
			}
		}
	})
}

func TestTimerHeapPrune(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h timerHeap
		var want []int64
		for i := range rapid.IntRange(minPrune, minPrune+500).Draw(t, "n") {
			at := int64(i*7919) % 10_007
			h.add(timer{run: int64(i % 5), Timer: engine.Timer{At: at}})
			if i%5 < 2 {
				want = append(want, at)
			}
		}
		h.prune(func(run int64) bool { return run < 2 })
		slices.Sort(want)
		var got []int64
		for _, d := range h.due(math.MaxInt64) {
			got = append(got, d.At)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%d timers are left, want %d in order", len(got), len(want))
		}
	})
}

// A day's time limit on a million short executions must not leave a million timers.
func TestTimersOfEndedExecutionsGo(t *testing.T) {
	var h timerHeap
	for run := range int64(1_000_000) {
		h.add(timer{run: run, Timer: engine.Timer{At: 1 << 50, Idx: -1}})
		h.prune(func(r int64) bool { return r > run-100 })
		if len(h.list) > 3*minPrune {
			t.Fatalf("%d timers after %d executions", len(h.list), run)
		}
	}
}

// The year 9999 in nanoseconds is more than 64 bits hold: the loop must not take it for now.
func TestTimerFarAway(t *testing.T) {
	var h timerHeap
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	h.add(timer{Timer: engine.Timer{At: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()}})
	if d := h.wait(now); d != maxWait {
		t.Errorf("waits %s", d)
	}
}
