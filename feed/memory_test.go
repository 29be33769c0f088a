package feed_test

import (
	"runtime"
	"testing"

	"github.com/stepwell/stepwell/feed"
	"github.com/stepwell/stepwell/feed/feedtest"
)

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestStalledFollowersHoldOnePageEach: followers that stop at different places of a long log, while others read all
// of it, cost the cache and a page each.
func TestStalledFollowersHoldOnePageEach(t *testing.T) {
	const stalled, lines, cache = 50, 30_000, 1 << 20
	w := feedtest.Open(t)
	x := w.Begin(2)
	h := start(t, feed.Options{Store: w.Store, CacheBytes: cache})
	held := make([][]feed.Message, stalled)
	subs := make([]*feed.Subscription, stalled)
	before := heap()
	for i := range stalled {
		x.Lines(lines / stalled)
		h.Lines([]int64{x.No})
		subs[i] = subscribe(t, h.Hub, x.ID, "", feed.Filter{})
		for range i + 2 { // everyone stops somewhere else
			messages, err := subs[i].Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			held[i] = messages
		}
	}
	x.End()
	h.Notify(x.No, true)
	got := all(t, subscribe(t, h.Hub, x.ID, "", feed.Filter{}))
	check(t, w, x, got)
	got = nil
	grown := heap() - before
	const bound = cache + stalled*(128<<10+64<<10) + 2<<20
	t.Logf("%d stalled followers of %d lines hold %d KiB, at most %d KiB", stalled, lines, grown>>10, bound>>10)
	if grown > bound {
		t.Errorf("the heap has grown by %d bytes, at most %d are expected", grown, bound)
	}
	for i := range subs { // and they go on as if nothing had been
		runtime.KeepAlive(held[i])
		if i%10 == 0 {
			rest := all(t, subs[i])
			if last := rest[len(rest)-1].Type; last != feed.TypeComplete {
				t.Errorf("follower %d ends with %s", i, last)
			}
		}
	}
}
