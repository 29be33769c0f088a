package ingest

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestOrdered keeps the order of the jobs, and no more than n of them at once.
func TestOrdered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		var got []int
		err := ordered(t.Context(), 4, true, slices.Values([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), func(_ context.Context, job int, give func(int) bool) {
			n := now.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(time.Duration(10-job) * time.Second) // later ones are quicker
			now.Add(-1)
			if give(2*job) && give(2*job+1) {
				return
			}
		}, func(_ int, r int) error {
			got = append(got, r)
			return nil
		})
		if err != nil || len(got) != 20 || !slices.IsSorted(got) || most.Load() > 4 || most.Load() < 2 {
			t.Error(got, most.Load(), err)
		}
	})
}

// TestOrderedEnds has nothing left running after an error, and after the end of ctx.
func TestOrderedEnds(t *testing.T) {
	wrong := errors.New("wrong")
	endless := func(_ context.Context, job int, give func(int) bool) {
		for give(job) {
		}
	}
	jobs := slices.Values([]int{1, 2, 3})
	if err := ordered(t.Context(), 2, true, jobs, endless, func(int, int) error { return wrong }); !errors.Is(err, wrong) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	err := ordered(ctx, 2, false, jobs, endless, func(int, int) error {
		if n++; n == 100 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestNotAhead makes nothing before what came before is taken.
func TestNotAhead(t *testing.T) {
	var made, taken atomic.Int32
	err := ordered(t.Context(), 1, false, slices.Values([]int{1, 2}), func(_ context.Context, _ int, give func(int) bool) {
		for range 50 {
			if made.Add(1) != taken.Load()+1 {
				t.Error("it works ahead")
			}
			if !give(0) {
				return
			}
		}
	}, func(int, int) error {
		taken.Add(1)
		return nil
	})
	if err != nil || taken.Load() != 100 {
		t.Error(taken.Load(), err)
	}
}
