package feed_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stepwell/stepwell/feed"
	"github.com/stepwell/stepwell/feed/feedtest"
	"github.com/stepwell/stepwell/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is a hub that runs until the test ends or stop is called.
type running struct {
	*feed.Hub
	stop func()
}

func start(t testing.TB, o feed.Options) *running {
	t.Helper()
	h, err := feed.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	r := &running{Hub: h}
	r.stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("hub: %v", err)
		}
		r.stop = func() {}
	}
	t.Cleanup(func() { r.stop() })
	return r
}

// wire is a message as a client reads it.
type wire struct {
	Type string          `json:"type"`
	Seq  string          `json:"seq"`
	Data json.RawMessage `json:"data"`
}

func decode(t testing.TB, m feed.Message) wire {
	t.Helper()
	var w wire
	if err := json.Unmarshal(m.Frame, &w); err != nil {
		t.Fatalf("%v in %s", err, m.Frame)
	}
	if w.Type != m.Type || w.Seq != m.Cursor.String() {
		t.Fatalf("the message says %s %s, the frame %s", m.Type, m.Cursor, m.Frame)
	}
	return w
}

// patience bounds each wait for messages, which is over at once when all is well.
const patience = time.Minute

// all reads a subscription to its end.
func all(t testing.TB, s *feed.Subscription) (out []wire) {
	t.Helper()
	defer s.Close()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		messages, err := s.Next(ctx)
		cancel()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("after %d messages: %v", len(out), err)
		}
		for _, m := range messages {
			out = append(out, decode(t, m))
		}
	}
}

func subscribe(t testing.TB, h *feed.Hub, id, since string, f feed.Filter) *feed.Subscription {
	t.Helper()
	s, err := h.Subscribe(t.Context(), id, since, f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// history is the expected stream by the store: log lines by number, and statuses as text.
func history(t testing.TB, w *feedtest.World, x *feedtest.Execution) (lines []string, statuses []string) {
	t.Helper()
	for after := int64(0); ; {
		page, err := w.Store.Logs(t.Context(), x.No, store.LogFilter{After: after})
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, l := range page {
			lines = append(lines, l.Level+" "+l.StepKey+" "+l.Message)
			after = l.Seq
		}
	}
	events, err := w.Store.Events(t.Context(), x.No, 0, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]string{"queued": "queued", "started": "running", "completed": "completed", "restart": "running"}
	for _, e := range events {
		if status := told[e.Type]; status != "" {
			statuses = append(statuses, fmt.Sprintf("%s %s %d", e.StepKey, status, e.At.UnixMilli()))
		}
	}
	return lines, statuses
}

// told is the same from messages.
func told(t testing.TB, messages []wire) (lines, statuses []string) {
	t.Helper()
	for _, m := range messages {
		var d struct {
			StepID    *string   `json:"step_id"`
			Level     string    `json:"level"`
			Message   string    `json:"message"`
			Status    string    `json:"status"`
			Timestamp time.Time `json:"timestamp"`
		}
		if err := json.Unmarshal(m.Data, &d); err != nil {
			t.Fatal(err)
		}
		step := ""
		if d.StepID != nil {
			step = *d.StepID
		}
		switch m.Type {
		case feed.TypeLog:
			lines = append(lines, d.Level+" "+step+" "+d.Message)
		case feed.TypeStatus:
			statuses = append(statuses, fmt.Sprintf("%s %s %d", step, d.Status, d.Timestamp.UnixMilli()))
		}
	}
	return lines, statuses
}
