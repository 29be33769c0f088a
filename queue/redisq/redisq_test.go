package redisq_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/queue/redisq"
	"github.com/stepwell/stepwell/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, s *redistest.Server, o redisq.Options) *redisq.Lists {
	t.Helper()
	o.URL = "redis://" + s.Address()
	l, err := redisq.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func numbered(prefix string, n int) (list [][]byte) {
	for i := range n {
		list = append(list, fmt.Appendf(nil, "%s%d", prefix, i))
	}
	return list
}

func push(t *testing.T, l *redisq.Lists, queue string, class int, list [][]byte) {
	t.Helper()
	if err := l.Push(t.Context(), queue, class, list); err != nil {
		t.Fatal(err)
	}
}

// A list is first in, first out, also beyond what one command carries; a higher class is taken first, in its order.
func TestOrder(t *testing.T) {
	for name, options := range map[string][]string{"Redis 7": nil, "before Redis 7": {"--rename-command", "BLMPOP", ""}} {
		t.Run(name, func(t *testing.T) {
			s := redistest.New(t, options...)
			for _, lists := range []int{1, 3} {
				l := open(t, s, redisq.Options{Queues: map[string]redisq.Queue{"q": {Lists: lists}}})
				plain, high := numbered("plain", 2500), numbered("high", 2500)
				push(t, l, "q", 0, plain)
				push(t, l, "q", 1, high)
				var got []string
				for len(got) < 5000 {
					some, err := l.Pop(t.Context(), []string{"q"}, 700, time.Minute)
					if err != nil || len(some) == 0 {
						t.Fatal(some, err)
					}
					got = append(got, some...)
				}
				for i, want := range slices.Concat(high, plain) {
					if got[i] != string(want) {
						t.Fatalf("with %d lists, message %d is %s, want %s", lists, i, got[i], want)
					}
				}
				if empty, err := l.Empty(t.Context(), "q"); err != nil || !empty {
					t.Errorf("the lists are not empty: %v", err)
				}
			}
		})
	}
}

// A command that waits ends with its context, and takes nothing after that.
func TestPopEnds(t *testing.T) {
	s := redistest.New(t)
	l := open(t, s, redisq.Options{})
	ctx, stop := context.WithCancel(t.Context())
	popped := make(chan error, 1)
	go func() {
		_, err := l.Pop(ctx, []string{"default"}, 1, time.Hour)
		popped <- err
	}()
	for {
		if info, err := redistest.Do(s.Address(), "INFO", "clients"); err == nil && strings.Contains(info, "blocked_clients:1") {
			break
		}
		time.Sleep(time.Millisecond)
	}
	stop()
	if err := <-popped; err == nil {
		t.Error("no error")
	}
	for {
		if info, err := redistest.Do(s.Address(), "INFO", "clients"); err == nil && strings.Contains(info, "blocked_clients:0") {
			break
		}
		time.Sleep(time.Millisecond)
	}
	push(t, l, "", 0, numbered("m", 1))
	if got, err := l.Pop(t.Context(), []string{"default"}, 1, time.Minute); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

// A cluster is refused with the reason.
func TestCluster(t *testing.T) {
	l := open(t, redistest.New(t, "--cluster-enabled", "yes"), redisq.Options{})
	if err := l.Ping(t.Context()); stepwell.CodeOf(err) != stepwell.CodeInvalid || !strings.Contains(err.Error(), "cluster") {
		t.Errorf("a cluster is answered with %v", err)
	}
	if _, err := redisq.Open(redisq.Options{URL: "http://:secret@x"}); stepwell.CodeOf(err) != stepwell.CodeInvalid || strings.Contains(err.Error(), "secret") {
		t.Errorf("a malformed address is answered with %v", err)
	}
}

// A server that is away is an error at once, and served again when it is back.
func TestAway(t *testing.T) {
	s := redistest.New(t)
	l := open(t, s, redisq.Options{})
	push(t, l, "", 0, numbered("m", 1))
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := l.Push(t.Context(), "", 0, numbered("m", 1)); err == nil {
		t.Error("a killed server takes messages")
	}
	if err := s.Begin(); err != nil {
		t.Fatal(err)
	}
	for l.Push(t.Context(), "", 0, numbered("n", 1)) != nil {
		time.Sleep(time.Millisecond)
	}
	if got, err := l.Pop(t.Context(), []string{"default"}, 5, time.Minute); err != nil || !slices.Equal(got, []string{"n0"}) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, %v", got, err)
	}
}
