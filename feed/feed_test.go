package feed_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/feed"
	"github.com/stepwell/stepwell/feed/feedtest"
	"github.com/stepwell/stepwell/store"
)

// check compares the messages with the store.
func check(t testing.TB, w *feedtest.World, x *feedtest.Execution, messages []wire) {
	t.Helper()
	wantLines, wantStatuses := history(t, w, x)
	lines, statuses := told(t, messages)
	if diff := cmp.Diff(wantLines, lines); diff != "" {
		t.Errorf("lines (want, got):\n%.2000s", diff)
	}
	if diff := cmp.Diff(wantStatuses, statuses); diff != "" {
		t.Errorf("statuses (want, got):\n%.2000s", diff)
	}
	if first, last := messages[0].Type, messages[len(messages)-1].Type; first != feed.TypeSnapshot || last != feed.TypeComplete {
		t.Errorf("it begins with %s and ends with %s", first, last)
	}
}

func TestLateJoinerGetsAllOfAnEndedExecution(t *testing.T) {
	w := feedtest.Open(t)
	x := w.Begin(700) // more than a read of the store takes
	x.Lines(1200)
	x.Complete(3)
	x.Lines(5)
	x.Complete(650) // in one version, more than a page
	x.Lines(40)
	x.Nothing()
	x.End()
	h := start(t, feed.Options{Store: w.Store})
	h.Notify(x.No, true) // so nobody waits for late lines
	got := all(t, subscribe(t, h.Hub, x.ID, "", feed.Filter{}))
	check(t, w, x, got)
	var end feed.CompleteData
	if err := json.Unmarshal(got[len(got)-1].Data, &struct {
		Status *stepwell.ExecutionStatus
		Result *json.RawMessage
	}{&end.Status, &end.Result}); err != nil {
		t.Fatal(err)
	}
	if end.Status != stepwell.ExecutionCompleted || string(end.Result) != `{"answer":42}` {
		t.Errorf("complete says %s", got[len(got)-1].Data)
	}
}

func TestManyFollowLive(t *testing.T) {
	w := feedtest.Open(t)
	x := w.Begin(40)
	h := start(t, feed.Options{Store: w.Store})
	const followers = 50
	got := make([][]wire, followers)
	var g sync.WaitGroup
	for i := range followers {
		s := subscribe(t, h.Hub, x.ID, "", feed.Filter{})
		g.Go(func() { got[i] = all(t, s) })
	}
	for range 13 {
		x.Lines(70)
		h.Lines([]int64{x.No})
		x.Complete(3)
		h.Notify(x.No, false)
	}
	x.End()
	h.Notify(x.No, true)
	g.Wait()
	for i := range got {
		check(t, w, x, got[i])
	}
	if n := h.Subscriptions(); n != 0 {
		t.Errorf("%d subscriptions are left", n)
	}
}

func TestSnapshotSaysHowThingsStand(t *testing.T) {
	w := feedtest.Open(t)
	x := w.Begin(5)
	x.Complete(2)
	h := start(t, feed.Options{Store: w.Store, SnapshotSteps: 4})
	s := subscribe(t, h.Hub, x.ID, feed.Latest, feed.Filter{})
	messages, err := s.Next(t.Context())
	if err != nil || len(messages) != 1 {
		t.Fatalf("%d messages, %v", len(messages), err)
	}
	var d struct {
		ExecutionID string `json:"execution_id"`
		Status      string `json:"status"`
		More        bool   `json:"more_steps"`
		Steps       []struct {
			ID     string `json:"step_id"`
			Status string `json:"status"`
		} `json:"steps"`
	}
	m := decode(t, messages[0])
	if err := json.Unmarshal(m.Data, &d); err != nil {
		t.Fatal(err)
	}
	if m.Type != feed.TypeSnapshot || d.ExecutionID != x.ID || d.Status != "running" || !d.More || len(d.Steps) != 4 || d.Steps[1].Status != "completed" || d.Steps[2].Status != "queued" {
		t.Errorf("snapshot: %s", m.Data)
	}
	x.Lines(1)
	x.End()
	h.Notify(x.No, true)
	lines, statuses := told(t, all(t, s))
	if len(lines) != 1 || len(statuses) != 8 { // earlier changes are not sent: s2 to s4 start and complete, s3 and s4 are queued
		t.Errorf("told later: %v %v", lines, statuses)
	}
}

func TestFilters(t *testing.T) {
	w := feedtest.Open(t)
	x := w.Begin(3)
	x.Lines(8, "debug", "info", "warning", "error")
	x.Complete(1)
	x.Lines(8, "debug", "info", "warning", "error")
	x.End()
	h := start(t, feed.Options{Store: w.Store})
	h.Notify(x.No, true)
	for _, c := range []struct {
		f               feed.Filter
		lines, statuses int
	}{
		{feed.Filter{}, 16, 9}, {feed.Filter{Level: "debug"}, 16, 9}, {feed.Filter{Level: "warning"}, 8, 9}, {feed.Filter{Level: "error", StepID: "s1"}, 2, 3},
		{feed.Filter{StepID: "s2"}, 0, 3}, {feed.Filter{StepID: "none"}, 0, 0},
	} {
		got := all(t, subscribe(t, h.Hub, x.ID, "", c.f))
		lines, statuses := told(t, got)
		if len(lines) != c.lines || len(statuses) != c.statuses || got[len(got)-1].Type != feed.TypeComplete {
			t.Errorf("%+v: %d lines, %d statuses: %v", c.f, len(lines), len(statuses), statuses)
		}
	}
}

func TestWhatCannotBeFollowed(t *testing.T) {
	w := feedtest.Open(t)
	x := w.Begin(3)
	h := start(t, feed.Options{Store: w.Store, MaxSubscriptions: 1})
	for _, c := range []struct {
		id, since string
		f         feed.Filter
		code      stepwell.Code
	}{
		{"nothing", "", feed.Filter{}, stepwell.CodeNotFound}, {x.ID, "yesterday", feed.Filter{}, stepwell.CodeInvalid},
		{x.ID, "9-0", feed.Filter{}, stepwell.CodeInvalid}, {x.ID, "", feed.Filter{Level: "loud"}, stepwell.CodeInvalid},
	} {
		if _, err := h.Subscribe(t.Context(), c.id, c.since, c.f); stepwell.CodeOf(err) != c.code {
			t.Errorf("%s since %q %+v: %v", c.id, c.since, c.f, err)
		}
	}
	subscribe(t, h.Hub, x.ID, "", feed.Filter{})
	if _, err := h.Subscribe(t.Context(), x.ID, "", feed.Filter{}); stepwell.CodeOf(err) != stepwell.CodeLimit {
		t.Errorf("one too many: %v", err)
	}
}

func TestStopEndsSubscriptions(t *testing.T) {
	w := feedtest.Open(t)
	x := w.Begin(3)
	h := start(t, feed.Options{Store: w.Store})
	s := subscribe(t, h.Hub, x.ID, feed.Latest, feed.Filter{})
	h.stop()
	var err error
	for err == nil {
		_, err = s.Next(t.Context())
	}
	if stepwell.CodeOf(err) != stepwell.CodeUnavailable || errors.Is(err, io.EOF) {
		t.Errorf("after the stop: %v", err)
	}
}

// TestNamesAndProgress: a step without a row has its key from the observer; its progress reaches present subscribers.
func TestNamesAndProgress(t *testing.T) {
	w := feedtest.Open(t)
	x := w.Begin(2)
	h := start(t, feed.Options{Store: w.Store, ProgressEvery: 1})
	s := subscribe(t, h.Hub, x.ID, feed.Latest, feed.Filter{})
	x.Queue(7) // of a for_each: nothing in the store names it
	h.Observe(&conductor.Update{Execution: &store.Execution{No: x.No}, Progress: engine.Progress{Total: 10, Completed: 4},
		StepChanges: store.StepChanges{Tasks: []*engine.Task{{Idx: 7, Key: "each[5].convert"}}}})
	h.Progress(x.No, 0, 0.25, "a quarter", nil)
	h.Progress(x.No, 0, 0.5, "half", &feed.Items{In: 3, Out: 2})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var status, progress string
	for status == "" || !strings.Contains(progress, "half") {
		messages, err := s.Next(ctx)
		if err != nil {
			t.Fatalf("status %q, progress %q: %v", status, progress, err)
		}
		for _, m := range messages {
			switch m.Type {
			case feed.TypeStatus:
				status = string(m.Frame)
			case feed.TypeProgress:
				progress = string(m.Frame)
			}
		}
	}
	if !strings.Contains(status, `"step_id":"each[5].convert","status":"queued","progress":{"total":10,"completed":4`) {
		t.Errorf("status: %s", status)
	}
	if !strings.Contains(progress, `"step_id":"s0","fraction":0.5,"note":"half"`) {
		t.Errorf("progress: %s", progress)
	}
}

func BenchmarkNotifyWithoutSubscribers(b *testing.B) {
	h, err := feed.New(feed.Options{Store: feedtest.Open(b).Store})
	if err != nil {
		b.Fatal(err)
	}
	u := &conductor.Update{Execution: &store.Execution{No: 7, Status: stepwell.ExecutionRunning}}
	for b.Loop() {
		h.Observe(u)
	}
}
