package feed_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/feed"
	"github.com/stepwell/stepwell/feed/feedtest"
)

// client follows an execution through as many connections as it takes.
type client struct {
	got  []wire // without the snapshots and the ends that a later connection took back
	seq  string
	over bool
}

// connect reads up to n messages, possibly only a part of a call of Next, and disconnects. With idle it also
// disconnects when there is nothing to read.
func (c *client) connect(t testing.TB, h *feed.Hub, id string, n int, idle bool) {
	t.Helper()
	s, err := h.Subscribe(t.Context(), id, c.seq, feed.Filter{})
	if err != nil {
		t.Fatalf("since %q: %v", c.seq, err)
	}
	defer s.Close()
	snapshot := false
	for n > 0 {
		wait := patience
		if idle {
			wait = time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		messages, err := s.Next(ctx)
		cancel()
		switch {
		case errors.Is(err, io.EOF), idle && errors.Is(err, context.DeadlineExceeded):
			return
		case err != nil:
			t.Fatalf("since %q: %v", c.seq, err)
		}
		for _, m := range messages[:min(n, len(messages))] {
			c.take(t, decode(t, m), &snapshot)
			n--
		}
	}
}

func (c *client) take(t testing.TB, w wire, snapshot *bool) {
	t.Helper()
	if w.Type == feed.TypeSnapshot {
		if *snapshot || c.seq != "" && w.Seq != c.seq {
			t.Fatalf("a snapshot at %s, since %q, second: %v", w.Seq, c.seq, *snapshot)
		}
		*snapshot, c.seq = true, w.Seq
		return
	}
	if !*snapshot {
		t.Fatalf("%s comes before the snapshot", w.Type)
	}
	c.over = w.Type == feed.TypeComplete
	c.got, c.seq = append(c.got, w), w.Seq
}

// TestReconnect: wherever clients disconnect and come back with the seq of their last message, each gets every
// message once and in order.
func TestReconnect(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := feedtest.Open(t)
		x := w.Begin(rapid.IntRange(1, 900).Draw(r, "steps"))
		small := rapid.Bool().Draw(r, "small cache")
		open := func() *running {
			o := feed.Options{Store: w.Store, Settle: time.Millisecond}
			if small {
				o.CacheBytes = 1 // every subscriber reads its pages itself
			}
			return start(t, o)
		}
		h := open()
		clients := make([]client, rapid.IntRange(1, 4).Draw(r, "clients"))
		for range rapid.IntRange(1, 12).Draw(r, "acts") {
			switch rapid.IntRange(0, 9).Draw(r, "act") {
			case 0, 1:
				x.Lines(rapid.IntRange(1, 700).Draw(r, "lines"), "info", "error")
				h.Lines([]int64{x.No})
			case 2, 3:
				x.Complete(rapid.IntRange(1, 400).Draw(r, "completes"))
				h.Notify(x.No, false)
			case 4:
				x.Nothing()
				h.Notify(x.No, false)
			case 5:
				h.stop()
				w.Reopen()
				h = open()
			default:
				c := &clients[rapid.IntRange(0, len(clients)-1).Draw(r, "who")]
				c.connect(t, h.Hub, x.ID, rapid.IntRange(1, 1500).Draw(r, "messages"), true)
			}
		}
		x.End()
		h.Notify(x.No, true)
		for i := range clients {
			c := &clients[i]
			for !c.over {
				c.connect(t, h.Hub, x.ID, rapid.IntRange(1, 3000).Draw(r, "messages"), false)
			}
			check(t, w, x, append([]wire{{Type: feed.TypeSnapshot, Data: []byte("{}")}}, c.got...))
		}
		h.stop()
		if t.Failed() {
			r.FailNow()
		}
	})
}

// TestReconnectEverywhere comes back behind every single message of a short execution.
func TestReconnectEverywhere(t *testing.T) {
	w := feedtest.Open(t)
	x := w.Begin(9)
	x.Complete(4)
	x.Lines(5)
	x.Complete(1)
	x.Lines(3)
	x.Nothing()
	x.End()
	h := start(t, feed.Options{Store: w.Store})
	h.Notify(x.No, true)
	want := all(t, subscribe(t, h.Hub, x.ID, "", feed.Filter{}))[1:]
	for i := range want {
		s := subscribe(t, h.Hub, x.ID, want[i].Seq, feed.Filter{})
		done := s.Done()
		got := all(t, s)
		if got[0].Type != feed.TypeSnapshot || got[0].Seq != want[i].Seq {
			t.Errorf("since %s it begins with %s %s", want[i].Seq, got[0].Type, got[0].Seq)
		}
		rest := want[i+1:]
		if last := i == len(want)-1; last != done {
			t.Errorf("since %s: done is %v", want[i].Seq, done)
		} else if last {
			rest = want[i:] // a stream of an execution that has ended always says so
		}
		if !slices.EqualFunc(rest, got[1:], func(a, b wire) bool { return a.Type == b.Type && a.Seq == b.Seq && string(a.Data) == string(b.Data) }) {
			t.Errorf("since %s: %d messages, want %d", want[i].Seq, len(got)-1, len(rest))
		}
	}
}

// TestRestartGoesOn: after the end, a subscriber gets the changes of a restart and the new end.
func TestRestartGoesOn(t *testing.T) {
	w := feedtest.Open(t)
	x := w.Begin(3)
	x.End()
	h := start(t, feed.Options{Store: w.Store})
	h.Notify(x.No, true)
	first := all(t, subscribe(t, h.Hub, x.ID, "", feed.Filter{}))
	since := first[len(first)-1].Seq
	x.Restart(1)
	h.Notify(x.No, false)
	s := subscribe(t, h.Hub, x.ID, since, feed.Filter{})
	if s.Done() {
		t.Error("it is done although it was restarted")
	}
	x.Lines(2)
	h.Lines([]int64{x.No})
	x.End()
	h.Notify(x.No, true)
	again := all(t, s)
	lines, statuses := told(t, again)
	if len(lines) != 2 || len(statuses) != 7 || again[len(again)-1].Type != feed.TypeComplete || again[len(again)-1].Seq == since {
		t.Errorf("after the restart: %v %v", lines, statuses)
	}
}

func TestCursor(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.Int64Range(0, 1<<62)
		c := feed.Cursor{Version: n.Draw(r, "version"), Log: n.Draw(r, "log"), Ended: rapid.Bool().Draw(r, "ended")}
		if !c.Ended && c.Version > 0 {
			c.Within = rapid.IntRange(0, 1<<30).Draw(r, "within")
		}
		if got, err := feed.ParseCursor(c.String()); err != nil || got != c {
			r.Errorf("%s reads back as %+v, %v", c, got, err)
		}
	})
}

func FuzzCursor(f *testing.F) {
	for _, seed := range []string{"", "-", "7-120", "7.3-120", "7-120-end", "7.3-1-end", "0.1-2", "-1-2", "+1-2", "01-2", "1-2-", "99999999999999999999-1", "1_0-2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := feed.ParseCursor(text)
		if err != nil && stepwell.CodeOf(err) != stepwell.CodeInvalid || err == nil && c.String() != text {
			t.Errorf("%q: %+v %v", text, c, err)
		}
	})
}
