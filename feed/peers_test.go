package feed_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/feed"
	"github.com/stepwell/stepwell/feed/feedtest"
	"github.com/stepwell/stepwell/store"
)

// peer is the hub of another process, which counts who follows.
type peer struct {
	*feed.Hub
	follow, stop atomic.Int32
}

func (p *peer) Follow(execution int64, notice func(feed.Notice)) func() {
	p.follow.Add(1)
	stop := p.Hub.Follow(execution, notice)
	return func() { p.stop.Add(1); stop() }
}

// A hub follows an execution that another process runs as that one's own hub does: events, lines, the progress of its steps
// and its end come at once, without a look at the store in between. It follows as long as there are subscribers.
func TestPeers(t *testing.T) {
	w := feedtest.Open(t)
	x := w.BeginNow(2)
	there := &peer{Hub: start(t, feed.Options{Store: w.Store}).Hub} // the process that runs it
	here := start(t, feed.Options{Store: w.Store, Peers: there, Poll: time.Hour, Settle: time.Hour, ProgressEvery: 1})
	first, second := subscribe(t, here.Hub, x.ID, feed.Latest, feed.Filter{}), subscribe(t, here.Hub, x.ID, "", feed.Filter{})
	if there.follow.Load() != 1 {
		t.Errorf("two subscribers follow %d times", there.follow.Load())
	}
	got := func(typ, part string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for {
			messages, err := first.Next(ctx)
			if err != nil {
				t.Fatalf("%s %s: %v", typ, part, err)
			}
			for _, m := range messages {
				if m.Type == typ && strings.Contains(string(m.Frame), part) {
					return
				}
			}
		}
	}
	x.Queue(7)
	there.Observe(&conductor.Update{Execution: &store.Execution{No: x.No}, Progress: engine.Progress{Total: 10, Completed: 4}, StepChanges: store.StepChanges{Tasks: []*engine.Task{{Idx: 7, Key: "each[5].convert"}}}})
	got(feed.TypeStatus, `"step_id":"each[5].convert","status":"queued","progress":{"total":10,"completed":4`)
	there.Progress(x.No, 0, 0.5, "half", nil)
	got(feed.TypeProgress, `"step_id":"s0","fraction":0.5,"note":"half"`)
	x.Lines(1)
	there.Lines([]int64{x.No, 999})
	got(feed.TypeLog, "line 0")
	x.End()
	there.Notify(x.No, true)
	got(feed.TypeComplete, "completed")
	first.Close()
	if there.stop.Load() != 0 {
		t.Error("a hub with a subscriber follows no more")
	}
	second.Close()
	second.Close()
	if there.stop.Load() != 1 {
		t.Errorf("following was ended %d times", there.stop.Load())
	}
	all(t, subscribe(t, here.Hub, x.ID, "", feed.Filter{})) // the end is known to have all its lines
}

// Two hubs that follow each other pass nothing on that they have heard.
func TestPeersOfEachOther(t *testing.T) {
	w := feedtest.Open(t)
	x := w.Begin(1)
	left, right := &peer{}, &peer{}
	left.Hub = start(t, feed.Options{Store: w.Store, Peers: right, Poll: time.Hour}).Hub
	right.Hub = start(t, feed.Options{Store: w.Store, Peers: left, Poll: time.Hour}).Hub
	a, b := subscribe(t, left.Hub, x.ID, "", feed.Filter{}), subscribe(t, right.Hub, x.ID, "", feed.Filter{})
	x.Lines(1)
	left.Lines([]int64{x.No})
	x.End()
	right.Notify(x.No, true)
	for _, s := range []*feed.Subscription{a, b} {
		if lines, _ := told(t, all(t, s)); len(lines) != 1 {
			t.Errorf("lines %v", lines)
		}
	}
}
