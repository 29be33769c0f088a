package feed_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/feed"
	"github.com/stepwell/stepwell/feed/feedtest"
)

// inBubble runs a test on a clock of its own; its resources are closed before the bubble ends.
func inBubble(t *testing.T, o feed.Options, test func(t *testing.T, w *feedtest.World, h *running)) {
	synctest.Test(t, func(t *testing.T) {
		w := feedtest.Open(t)
		o.Store = w.Store
		test(t, w, start(t, o))
	})
}

// TestEndThatNobodyTold: an execution that another process has ended may still get log lines for a while, and
// the end is told behind them.
func TestEndThatNobodyTold(t *testing.T) {
	inBubble(t, feed.Options{}, func(t *testing.T, w *feedtest.World, h *running) {
		x := w.BeginNow(1)
		x.End()
		s := subscribe(t, h.Hub, x.ID, "", feed.Filter{})
		go func() {
			time.Sleep(time.Second)
			x.Lines(3)
		}()
		began := time.Now()
		check(t, w, x, all(t, s))
		if took := time.Since(began); took < time.Second || took > 3*time.Second {
			t.Errorf("the end was told after %v", took)
		}
	})
}

// TestEndThatWasTold: nobody waits for lines when the end has been told.
func TestEndThatWasTold(t *testing.T) {
	inBubble(t, feed.Options{}, func(t *testing.T, w *feedtest.World, h *running) {
		x := w.BeginNow(1)
		x.Lines(3)
		x.End()
		h.Notify(x.No, true)
		began := time.Now()
		check(t, w, x, all(t, subscribe(t, h.Hub, x.ID, "", feed.Filter{})))
		if took := time.Since(began); took != 0 {
			t.Errorf("the end was told after %v", took)
		}
	})
}

// TestPoll: another process's changes are seen without a notification.
func TestPoll(t *testing.T) {
	inBubble(t, feed.Options{Poll: 5 * time.Second}, func(t *testing.T, w *feedtest.World, h *running) {
		x := w.BeginNow(3)
		s := subscribe(t, h.Hub, x.ID, "", feed.Filter{})
		go func() {
			time.Sleep(time.Second)
			x.Lines(3)
			x.End()
		}()
		began := time.Now()
		check(t, w, x, all(t, s))
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("the end was told after %v", took)
		}
	})
}

// TestLateLineBeforeComplete: a line that comes behind the end, while somebody has not yet got there, is told before it.
func TestLateLineBeforeComplete(t *testing.T) {
	inBubble(t, feed.Options{}, func(t *testing.T, w *feedtest.World, h *running) {
		x := w.BeginNow(1)
		x.Lines(300)
		s := subscribe(t, h.Hub, x.ID, "", feed.Filter{})
		x.End()
		h.Notify(x.No, true)
		synctest.Wait()
		x.Lines(1)
		h.Lines([]int64{x.No})
		synctest.Wait()
		began := time.Now()
		check(t, w, x, all(t, s))
		if took := time.Since(began); took != 0 {
			t.Errorf("the end was told after %v", took)
		}
	})
}

// slowRead is a store whose next read of events waits, once it is told to.
type slowRead struct {
	feed.Store
	slow atomic.Bool
	wait chan struct{}
}

func (s *slowRead) Events(ctx context.Context, execution, after int64, limit int) ([]engine.HistoryEvent, error) {
	if s.slow.CompareAndSwap(true, false) {
		<-s.wait
	}
	return s.Store.Events(ctx, execution, after, limit)
}

// TestReadThatOutlivesItsReaders: what was read for a client that has left meanwhile, and leads further than the next client's
// stream has got to, is told to that one once.
func TestReadThatOutlivesItsReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := feedtest.Open(t)
		s := &slowRead{Store: w.Store, wait: make(chan struct{})}
		h := start(t, feed.Options{Store: s})
		x := w.BeginNow(3)
		s.slow.Store(true)
		first := subscribe(t, h.Hub, x.ID, feed.Latest, feed.Filter{})
		since := first.Cursor().String()
		synctest.Wait() // the read waits
		first.Close()
		x.Complete(1)
		second := subscribe(t, h.Hub, x.ID, since, feed.Filter{})
		var got []wire
		next := func() {
			messages, err := second.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range messages {
				got = append(got, decode(t, m))
			}
		}
		next() // the snapshot
		synctest.Wait()
		x.Lines(2)
		close(s.wait)
		synctest.Wait()
		next()
		go func() {
			time.Sleep(time.Second)
			h.Lines([]int64{x.No})
			time.Sleep(time.Second)
			x.Lines(1)
			x.End()
			h.Notify(x.No, true)
		}()
		got = append(got, all(t, second)...)
		if lines, statuses := told(t, got); len(lines) != 3 || len(statuses) != 8 {
			t.Errorf("told %v and %v", lines, statuses)
		}
	})
}
