package redisource_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/redistest"
	"github.com/stepwell/stepwell/trigger/event"
	"github.com/stepwell/stepwell/trigger/event/redisource"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// taken is what Receive has been given, by id: once, as a store has it.
type taken struct {
	mu     sync.Mutex
	events map[string]event.Event
	times  map[string]int
	fail   func(e *event.Event, times int) error
}

func (k *taken) receive(_ context.Context, e event.Event) (*event.Received, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.events == nil {
		k.events, k.times = map[string]event.Event{}, map[string]int{}
	}
	id := e.ID
	if id == "" {
		id = fmt.Sprint("without id ", len(k.events))
	}
	k.times[id]++
	if k.fail != nil {
		if err := k.fail(&e, k.times[id]); err != nil {
			return nil, err
		}
	}
	k.events[id] = e
	return &event.Received{ID: id}, nil
}

func (k *taken) ids() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.events))
}

// wait waits until so many events have been taken.
func (k *taken) wait(t *testing.T, n int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); len(k.ids()) < n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d events were taken, want %d", len(k.ids()), n)
		}
	}
}

// read runs a reader until the returned function is called.
func read(t *testing.T, k *taken, sources map[string]redisource.Source) (stop func()) {
	t.Helper()
	r, err := redisource.New(redisource.Options{Sources: sources, Receive: k.receive, MaxBody: 1000, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		end()
		<-ran
		r.Close()
	})
	t.Cleanup(stop)
	return stop
}

func do(t *testing.T, s *redistest.Server, command ...string) string {
	t.Helper()
	out, err := redistest.Do(s.Address(), command...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func stream(s *redistest.Server) map[string]redisource.Source {
	return map[string]redisource.Source{"orders": {URL: "redis://" + s.Address(), Stream: "orders", From: "beginning"}}
}

// An entry is an event, another object or fields; what has no id is named by its entry.
func TestEntries(t *testing.T) {
	s := redistest.New(t)
	do(t, s, "XADD", "orders", "1-1", "event", `{"id":"a","type":"order.new","key":"k","data":{"n":12345678901234567}}`)
	do(t, s, "XADD", "orders", "1-2", "event", `{"n":2}`)
	do(t, s, "XADD", "orders", "1-3", "n", "3", "m", "x")
	do(t, s, "XADD", "orders", "1-4", "event", `{"event_id":"b","timestamp":"2026-01-02T03:04:05Z","payload":{"project_id":"p"}}`)
	do(t, s, "XADD", "orders", "1-5", "event", `no JSON`)
	var k taken
	read(t, &k, stream(s))
	k.wait(t, 5)
	for id, want := range map[string]string{"a": "order.new k map[n:12345678901234567]", "redis:orders:1-2": "orders  map[n:2]", "redis:orders:1-3": "orders  map[m:x n:3]",
		"b": "orders  map[project_id:p]", "redis:orders:1-5": "orders  map[value:no JSON]"} {
		e := k.events[id]
		if got := fmt.Sprint(e.Type, " ", e.Key, " ", map[string]any(e.Data)); got != want || e.Source != "redis:orders" {
			t.Errorf("%s is %s of %s, want %s", id, got, e.Source, want)
		}
	}
}

// A stream loses nothing: over restarts of the reader in mid-event, over events that cannot be taken for a while, and over a
// server that is killed.
func TestStreamLosesNothing(t *testing.T) {
	s := redistest.New(t, "--appendonly", "yes", "--appendfsync", "always")
	const n = 200
	var k taken
	stop := read(t, &k, stream(s))
	held := make(chan struct{}, 1)
	k.mu.Lock()
	k.fail = func(e *event.Event, times int) error {
		select {
		case held <- struct{}{}:
		default:
		}
		if times == 1 && strings.HasSuffix(e.ID, "7") {
			return stepwell.Errorf(stepwell.CodeUnavailable, "", "not now")
		}
		return nil
	}
	k.mu.Unlock()
	for i := range n {
		do(t, s, "XADD", "orders", "*", "event", fmt.Sprintf(`{"id":"e%03d","type":"x"}`, i))
		switch i {
		case 50:
			<-held
			stop()
		case 100:
			stop = read(t, &k, stream(s))
		case 150:
			if err := s.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := s.Begin("--appendonly", "yes", "--appendfsync", "always"); err != nil {
				t.Fatal(err)
			}
		}
	}
	k.wait(t, n)
	for end := time.Now().Add(time.Minute); !strings.HasPrefix(do(t, s, "XPENDING", "orders", "stepwell"), "0\n"); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not acknowledged: %s", do(t, s, "XPENDING", "orders", "stepwell"))
		}
	}
	stop()
}

// A server that has lost everything is read from the beginning of what it has then.
func TestStreamOfAnEmptyServer(t *testing.T) {
	s := redistest.New(t)
	do(t, s, "XADD", "orders", "*", "event", `{"id":"a","type":"x"}`)
	var k taken
	read(t, &k, stream(s))
	k.wait(t, 1)
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Begin(); err != nil {
		t.Fatal(err)
	}
	do(t, s, "XADD", "orders", "*", "event", `{"id":"b","type":"x"}`)
	k.wait(t, 2)
}

// An event that never can be taken is left out, and the next ones come.
func TestPermanent(t *testing.T) {
	s := redistest.New(t)
	var k taken
	k.fail = func(e *event.Event, _ int) error {
		switch {
		case e.Type == "execution.ended":
			return stepwell.Invalid("", "it is Stepwell's own")
		case e.ID == "large":
			return stepwell.Errorf(stepwell.CodeLimit, "", "it is too large")
		}
		return nil
	}
	do(t, s, "XADD", "orders", "*", "event", `{"id":"a","type":"execution.ended"}`)
	do(t, s, "XADD", "orders", "*", "event", `{"id":"large","type":"x","data":{"x":"`+strings.Repeat("x", 2000)+`"}}`)
	do(t, s, "XADD", "orders", "*", "event", `{"id":"b","type":"x"}`)
	read(t, &k, stream(s))
	k.wait(t, 1)
	if got := k.ids(); !slices.Equal(got, []string{"b"}) {
		t.Errorf("taken: %v", got)
	}
}

// A channel, or a pattern of channels, gives what is published while it is listened to; after an outage it is listened to again.
func TestChannel(t *testing.T) {
	s := redistest.New(t)
	var k taken
	read(t, &k, map[string]redisource.Source{"one": {URL: "redis://" + s.Address(), Channel: "app"}, "all": {URL: "redis://" + s.Address(), Channel: "app.*", Type: "app.event"}})
	publish := func(channel, message string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); do(t, s, "PUBLISH", channel, message) == "0"; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("nobody listens")
			}
		}
	}
	publish("app", `{"id":"a","type":"x"}`)
	publish("app.b", `{"n":1}`)
	k.wait(t, 2)
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Begin(); err != nil {
		t.Fatal(err)
	}
	publish("app", `{"id":"c","type":"x"}`)
	k.wait(t, 3)
}

func TestRefused(t *testing.T) {
	for want, s := range map[string]redisource.Source{"neither": {URL: "redis://x"}, "not an address": {URL: "http://u:secret@x", Stream: "s"}} {
		_, err := redisource.New(redisource.Options{Sources: map[string]redisource.Source{"s": s}})
		if stepwell.CodeOf(err) != stepwell.CodeInvalid || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", s, err)
		}
	}
}
