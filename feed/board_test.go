package feed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// noStore has nothing: a board does not read executions by itself.
type noStore struct{ Store }

// boardRig is a board whose lists are what the test says.
type boardRig struct {
	hub *Hub

	mu     sync.Mutex
	things map[string]string
	reads  int
}

// set changes one of the things, and gives how often they have been read; "" deletes it.
func (r *boardRig) set(id, text string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.things[id] = text; text == "" {
		delete(r.things, id)
	}
	return r.reads
}

func newBoardRig(t *testing.T) *boardRig {
	t.Helper()
	r := &boardRig{things: map[string]string{}}
	var err error
	if r.hub, err = New(Options{Store: noStore{}, MaxSubscriptions: 2}); err != nil {
		t.Fatal(err)
	}
	show := func(x *store.Execution) Row {
		return Row{ID: x.ID, Data: fmt.Appendf(nil, `{"id":%q,"done":%d}`, x.ID, x.Progress.Completed)}
	}
	things := func(context.Context) (rows []Row, err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.reads++
		for id, text := range r.things {
			rows = append(rows, Row{ID: id, Data: fmt.Appendf(nil, "%q", text)})
		}
		return rows, nil
	}
	r.hub.Board().Serve(show, List{Kind: "executions", Read: func(context.Context) ([]Row, error) { return nil, nil }}, List{Kind: "things", Read: things, Drops: true})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.hub.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *boardRig) observe(id string, done int) {
	r.hub.Observe(&conductor.Update{Execution: &store.Execution{ID: id}, Progress: engine.Progress{Completed: done}})
}

// boardMessageOf is one as clients get it.
type boardMessageOf struct {
	Type, Seq string
	Data      struct {
		Resumed bool
		Rows    []json.RawMessage
		Removed []string
		Reload  bool
	}
}

// hear reads what there is after a time.
func hear(t *testing.T, f *BoardFollower, after time.Duration) (out []boardMessageOf) {
	t.Helper()
	time.Sleep(after) // of a bubble
	synctest.Wait()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
		raw, err := f.Next(ctx, func(resumed bool) any { return map[string]any{"resumed": resumed} })
		cancel()
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			return out
		}
		for event := range bytes.SplitSeq(bytes.TrimSpace(raw), []byte("\n\n")) {
			_, data, _ := strings.Cut(string(event), "\ndata: ")
			var m boardMessageOf
			if err := json.Unmarshal([]byte(data), &m); err != nil || !strings.HasPrefix(string(event), "id: "+m.Seq+"\nevent: "+m.Type+"\n") {
				t.Fatalf("%v: %s", err, event)
			}
			out = append(out, m)
		}
	}
}

func follow(t *testing.T, r *boardRig, since string) *BoardFollower {
	t.Helper()
	f, err := r.hub.Board().Follow(since)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

func TestBoardMergesChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBoardRig(t)
		f := follow(t, r, "")
		if got := hear(t, f, 0); len(got) != 1 || got[0].Type != "hello" || got[0].Data.Resumed {
			t.Fatalf("at first: %+v", got)
		}
		for i := range 1000 { // in two seconds
			r.observe(fmt.Sprint("x", i%3), i)
			time.Sleep(2 * time.Millisecond)
		}
		got := hear(t, f, time.Second)
		if len(got) < 4 || len(got) > 9 {
			t.Errorf("1,000 changes in two seconds are %d messages", len(got))
		}
		last := got[len(got)-1]
		if last.Type != "executions" || len(last.Data.Rows) == 0 || !strings.Contains(fmt.Sprintf("%s", last.Data.Rows), `"done":999`) {
			t.Errorf("the last is %s", last.Data.Rows)
		}
	})
}

func TestBoardTellsWhatOthersChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBoardRig(t)
		r.set("a", "one")
		r.set("b", "two")
		f := follow(t, r, "")
		if got := hear(t, f, 5*time.Second); len(got) != 1 {
			t.Errorf("without a change: %+v", got)
		}
		r.set("a", "three")
		r.set("b", "")
		got := hear(t, f, 5*time.Second)
		if len(got) != 1 || got[0].Type != "things" || fmt.Sprintf("%s %s", got[0].Data.Rows, got[0].Data.Removed) != `["three"] [b]` {
			t.Errorf("told: %+v", got)
		}
		f.Close()
		reads := r.set("b", "")
		if time.Sleep(time.Minute); r.set("b", "") != reads {
			t.Error("lists are read without followers")
		}
	})
}

func TestBoardResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBoardRig(t)
		keep := follow(t, r, "")
		hear(t, keep, 0)
		r.observe("x", 1)
		first := hear(t, keep, time.Second)
		r.observe("x", 2)
		second := hear(t, keep, time.Second)
		again := follow(t, r, first[0].Seq)
		got := hear(t, again, 0)
		if len(got) != 2 || !got[0].Data.Resumed || got[1].Seq != second[0].Seq {
			t.Errorf("after the first message: %+v", got)
		}
		if _, err := r.hub.Board().Follow(""); err == nil {
			t.Error("there are more followers than subscriptions are allowed")
		}
		again.Close()
		for _, since := range []string{"x", "another.1", first[0].Seq + "9", "."} {
			f := follow(t, r, since)
			if got := hear(t, f, 0); len(got) != 1 || got[0].Data.Resumed {
				t.Errorf("since %s: %+v", since, got)
			}
			f.Close()
		}
		for i := range boardRing + 1 { // nobody reads them
			r.observe("x", i)
			time.Sleep(boardEvery)
		}
		if got := hear(t, keep, 0); got[0].Type != "hello" || got[0].Data.Resumed {
			t.Errorf("a follower that is too far behind: %+v", got[0])
		}
	})
}

func TestBoardIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBoardRig(t)
		f := follow(t, r, "")
		hear(t, f, 0)
		for i := range boardDirty + 10 {
			r.observe(fmt.Sprintf("x%05d", i), i)
		}
		rows, reload := 0, false
		for _, m := range hear(t, f, time.Minute) {
			if len(m.Data.Rows) > boardRows {
				t.Errorf("%d rows in one message", len(m.Data.Rows))
			}
			rows, reload = rows+len(m.Data.Rows), reload || m.Data.Reload
		}
		if rows != boardDirty || !reload {
			t.Errorf("%d rows, reload %v", rows, reload)
		}
	})
}

func TestBoardEndsWithTheHub(t *testing.T) {
	hub, err := New(Options{Store: noStore{}})
	if err != nil {
		t.Fatal(err)
	}
	f, err := hub.Board().Follow("")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	hello := func(bool) any { return nil }
	if _, err := f.Next(t.Context(), hello); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := hub.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Next(t.Context(), hello); !errors.Is(err, io.EOF) {
		t.Errorf("after the hub has stopped: %v", err)
	}
}
