package sqlite

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// TestWatchOnce asks step by step: only a request makes it say yes, and until it is taken.
func TestWatchOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	holder, other := open(t, Options{Path: path, Exclusive: true}), open(t, Options{Path: path})
	begin(t, holder, 1, `{"steps":[]}`)
	w, err := holder.watcher(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.db.Close()
	defer w.conn.Close()
	want := func(want bool, after string) {
		t.Helper()
		if got, err := w.once(t.Context()); err != nil || got != want {
			t.Errorf("after %s: %t, %v; want %t", after, got, err, want)
		}
	}
	put := func() {
		t.Helper()
		if err := other.PutRequest(t.Context(), store.Request{Execution: "x", Kind: "cancel"}); err != nil {
			t.Fatal(err)
		}
	}
	take := func() {
		t.Helper()
		if list, err := holder.TakeRequests(t.Context(), 1, 1); err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
	}
	want(false, "nothing")
	if err := holder.Commit(t.Context(), []store.Commit{{Execution: 1, Version: 2, Log: []byte(`{"t":1,"e":[]}`), Steps: []engine.StepRow{{Idx: 1}}}}); err != nil {
		t.Fatal(err)
	}
	want(false, "a commit")
	put()
	put()
	want(true, "two requests")
	want(true, "nobody took them")
	take()
	want(true, "one was taken")
	take()
	want(false, "both were taken")
	want(false, "nothing")
}

// TestWatch runs the loop: earlier requests, then a later one, then its end.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "store.db")
		holder, other := open(t, Options{Path: path, Exclusive: true}), open(t, Options{Path: path})
		put := func(kind string) {
			if err := other.PutRequest(t.Context(), store.Request{Execution: "x", Kind: kind}); err != nil {
				t.Error(err)
			}
		}
		put("early")
		ctx, cancel := context.WithCancel(t.Context())
		ended, taken := make(chan error), make(chan string, 10)
		go func() {
			ended <- holder.Watch(ctx, 50*time.Millisecond, func() {
				list, err := holder.TakeRequests(ctx, 1, 10)
				if err != nil {
					t.Error(err)
				}
				for _, r := range list {
					taken <- r.Kind
				}
			})
		}()
		if got := <-taken; got != "early" {
			t.Errorf("took %q first", got)
		}
		put("late")
		if got := <-taken; got != "late" {
			t.Errorf("took %q second", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
