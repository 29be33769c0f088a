package conductor

import (
	"errors"
	"sync"
	"testing"

	"github.com/stepwell/stepwell/engine"
)

// The loop owns the items of take until the next take: neither a spurious wake-up nor a later put may touch them.
func TestInboxBuffersTakeTurns(t *testing.T) {
	b := &inbox{ring: make(chan struct{}, 1)}
	put := func(from, to int64) {
		for i := from; i < to; i++ {
			if err := b.put(item{run: i}); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func(batch []item, from, to int64) {
		t.Helper()
		if len(batch) != int(to-from) {
			t.Fatalf("%d items, want %d", len(batch), to-from)
		}
		for i := range batch {
			if batch[i].run != from+int64(i) {
				t.Fatalf("item %d is %d, want %d", i, batch[i].run, from+int64(i))
			}
		}
	}
	put(0, 100)
	first := b.take()
	for range 5 {
		if batch := b.take(); batch != nil {
			t.Fatalf("an empty inbox gave %d items", len(batch))
		}
	}
	put(100, 350) // more than the spare has room for
	check(first, 0, 100)
	second := b.take()
	for range 3 {
		b.take()
	}
	put(350, 360)
	check(second, 100, 350)
	check(b.take(), 350, 360)
}

func TestInboxLosesNothing(t *testing.T) {
	const putters, each = 8, 5000
	b := &inbox{ring: make(chan struct{}, 1)}
	var group sync.WaitGroup
	for p := range int64(putters) {
		group.Go(func() {
			for i := range int32(each) {
				if err := b.put(item{run: p, ev: engine.Event{Idx: i}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all := make(chan struct{})
	go func() { group.Wait(); close(all) }()
	next := make([]int32, putters)
	drain := func() (n int) {
		b.settle()
		for _, it := range b.take() {
			if it.ev.Idx != next[it.run] {
				t.Fatalf("item %d of putter %d, want %d", it.ev.Idx, it.run, next[it.run])
			}
			next[it.run]++
			n++
		}
		return n
	}
	for done := false; !done; {
		select {
		case <-b.ring:
			drain()
			drain() // most often in vain, as after a spurious wake-up
		case <-all:
			drain()
			done = true
		}
	}
	for p, n := range next {
		if n != each {
			t.Errorf("%d items of putter %d, want %d", n, p, each)
		}
	}
}

// A put into an empty inbox rings: a loop that waits after it found nothing wakes.
func TestInboxRingsWhenEmpty(t *testing.T) {
	b := &inbox{ring: make(chan struct{}, 1)}
	for i := range int64(1000) {
		if err := b.put(item{run: i}); err != nil {
			t.Fatal(err)
		}
		<-b.ring
		if batch := b.take(); len(batch) != 1 || batch[0].run != i {
			t.Fatalf("took %d items", len(batch))
		}
	}
}

func TestInboxClosed(t *testing.T) {
	b := &inbox{ring: make(chan struct{}, 1)}
	if err := b.put(item{run: 7}); err != nil {
		t.Fatal(err)
	}
	why, other := errors.New("why"), errors.New("other")
	if left := b.close(why); len(left) != 1 || left[0].run != 7 {
		t.Errorf("left %v", left)
	}
	if left := b.close(other); len(left) != 0 {
		t.Errorf("left %v the second time", left)
	}
	if err := b.put(item{}); err != why {
		t.Errorf("put gave %v", err)
	}
}
