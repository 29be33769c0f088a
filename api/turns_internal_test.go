package api

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
)

// TestTurns: of one caller one thing goes on at a time, of several as many; who waits for too long is told so.
func TestTurns(t *testing.T) {
	var of turns
	var at, most atomic.Int32
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			leave, err := of.take(t.Context(), "a", time.Minute)
			if err != nil {
				t.Error(err)
				return
			}
			most.Store(max(most.Load(), at.Add(1)))
			time.Sleep(time.Millisecond)
			at.Add(-1)
			leave()
		})
	}
	all.Wait()
	if most.Load() != 1 {
		t.Errorf("%d at a time", most.Load())
	}
	leave, err := of.take(t.Context(), "a", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if other, err := of.take(t.Context(), "b", 0); err != nil {
		t.Error(err)
	} else {
		other()
	}
	if _, err := of.take(t.Context(), "a", time.Millisecond); stepwell.CodeOf(err) != stepwell.CodeLimit {
		t.Error(err)
	}
	gone, stop := context.WithCancel(t.Context())
	stop()
	if _, err := of.take(gone, "a", time.Minute); err == nil {
		t.Error("who has gone gets a turn")
	}
	leave()
	if len(of.busy) != 0 {
		t.Errorf("%d are kept", len(of.busy))
	}
}
