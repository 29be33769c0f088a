package outbound

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/outbound/outboundtest"
)

// TestConcurrency sends 1,000 requests at once; the server counts how many it has at the same time.
func TestConcurrency(t *testing.T) {
	s, other := outboundtest.New(t), outboundtest.New(t)
	c := local(t, Options{PerHost: Limit{Concurrent: 7}, PerCredential: Limit{Concurrent: 3}, MaxWait: time.Minute})
	var wg sync.WaitGroup
	var failed atomic.Int64
	for i := range 1000 {
		wg.Go(func() {
			req := &Request{URL: s.URL + "/work"}
			if i%2 == 0 {
				req = &Request{URL: other.URL + "/work", Header: http.Header{"Authorization": {"Bearer one-for-all"}}}
			}
			if status, _, err := fetch(t, c, req); err != nil || status != 200 {
				failed.Add(1)
			}
		})
	}
	wg.Wait()
	if failed.Load() > 0 || s.Count("/work") != 500 || other.Count("/work") != 500 {
		t.Errorf("%d failed, %d and %d arrived", failed.Load(), s.Count("/work"), other.Count("/work"))
	}
	if s.Most() > 7 || s.Most() < 2 || other.Most() > 3 {
		t.Errorf("%d and %d at once, want at most 7 for a host and 3 for a credential", s.Most(), other.Most())
	}
}

func limitsOf(o Options) *limits {
	if o.MaxWait == 0 {
		o.MaxWait = 30 * time.Second
	}
	return newLimits(o)
}

func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limitsOf(Options{Hosts: map[string]Limit{"slow": {PerSecond: 2, Burst: 1}}})
		began := time.Now()
		for range 5 {
			turn, err := l.wait(t.Context(), place{host: "slow", hostPort: "slow:80"})
			if err != nil {
				t.Fatal(err)
			}
			turn.end()
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("five requests at two a second took %s", took)
		}
		l = limitsOf(Options{PerHost: Limit{PerSecond: 0.01}, MaxWait: 10 * time.Second})
		for i := range 2 {
			turn, err := l.wait(t.Context(), place{host: "slow", hostPort: "slow:80"})
			if i == 0 {
				turn.end()
				continue
			}
			if f, ok := errors.AsType[*Failure](err); !ok || f.Kind != KindBusy || f.After != 100*time.Second || !f.Told {
				t.Errorf("beyond patience: %+v", err)
			}
		}
	})
}

// TestCoolDown has one answer hold back everybody.
func TestCoolDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limitsOf(Options{})
		first, err := l.wait(t.Context(), place{host: "h", hostPort: "h:80"})
		if err != nil {
			t.Fatal(err)
		}
		first.coolDown(5 * time.Second)
		first.coolDown(time.Second) // the longer one stays
		first.end()
		began := time.Now()
		second, err := l.wait(t.Context(), place{host: "h", hostPort: "h:80"})
		if err != nil || time.Since(began) != 5*time.Second {
			t.Fatalf("%v after %s", err, time.Since(began))
		}
		second.coolDown(time.Hour)
		second.end()
		_, err = l.wait(t.Context(), place{host: "h", hostPort: "h:80"})
		if f, ok := errors.AsType[*Failure](err); !ok || f.After != time.Hour {
			t.Errorf("a long one: %v", err)
		}
		if turn, err := l.wait(t.Context(), place{host: "g", hostPort: "g:80"}); err != nil {
			t.Errorf("another host: %v", err)
		} else {
			turn.end()
		}
	})
}

func TestFullHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limitsOf(Options{PerHost: Limit{Concurrent: 1}, MaxWait: 3 * time.Second})
		held, err := l.wait(t.Context(), place{host: "h", hostPort: "h:80", credential: "c"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.wait(t.Context(), place{host: "h", hostPort: "h:80"})
		if f, ok := errors.AsType[*Failure](err); !ok || f.Kind != KindBusy || !strings.Contains(err.Error(), "1 requests to h:80") {
			t.Errorf("%v", err)
		}
		held.end()
		held.end() // twice does no harm
		again, err := l.wait(t.Context(), place{host: "h", hostPort: "h:80", credential: "c"})
		if err != nil {
			t.Fatal(err)
		}
		again.end()
	})
}

// TestBreaker opens after failures in a row and lets one request try after a while.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limitsOf(Options{Breaker: Breaker{Failures: 3, Open: 20 * time.Second}})
		try := func(result error) error {
			turn, err := l.wait(t.Context(), place{host: "h", hostPort: "h:80"})
			if err != nil {
				return err
			}
			turn.tell(result)
			turn.end()
			return nil
		}
		bad := verdictOf(http.StatusBadGateway)
		for _, result := range []error{bad, bad, nil, bad, bad, errExcluded, bad} {
			if err := try(result); err != nil {
				t.Fatalf("open too early: %v", err)
			}
		}
		err := try(nil)
		if f, ok := errors.AsType[*Failure](err); !ok || f.Kind != KindBusy || f.After != 20*time.Second {
			t.Fatalf("not open: %+v", err)
		}
		time.Sleep(21 * time.Second) // of synctest's clock
		if err := try(bad); err != nil {
			t.Errorf("the one that tries: %v", err)
		}
		if try(nil) == nil {
			t.Error("closed after a failed try")
		}
		time.Sleep(21 * time.Second)
		if err := errors.Join(try(nil), try(nil)); err != nil {
			t.Errorf("not closed after a good one: %v", err)
		}
	})
}

func TestGatesForgotten(t *testing.T) {
	l := limitsOf(Options{})
	for i := range maxGates + 10 {
		turn, err := l.wait(t.Context(), place{host: "h", hostPort: fmt.Sprintf("h%d:80", i)})
		if err != nil {
			t.Fatal(err)
		}
		turn.end()
	}
	if len(l.gates) > 20 {
		t.Errorf("%d gates are kept", len(l.gates))
	}
}

// TestBreakerOfClient proves that exchanges reach the breaker: a broken host is no longer asked.
func TestBreakerOfClient(t *testing.T) {
	s := outboundtest.New(t)
	c := local(t, Options{Breaker: Breaker{Failures: 4}})
	for i := range 10 {
		_, _, err := fetch(t, c, &Request{URL: s.URL + "/status/503"})
		if f, _ := errors.AsType[*Failure](err); (i >= 4) != (f != nil && f.Kind == KindBusy) {
			t.Errorf("request %d: %v", i, err)
		}
	}
	if n := s.Count("/status/503"); n != 4 {
		t.Errorf("%d requests arrived", n)
	}
}

// TestBusyAnswerCoolsDown proves that a 429 keeps the next request away.
func TestBusyAnswerCoolsDown(t *testing.T) {
	s := outboundtest.New(t)
	c := local(t, Options{MaxWait: 10 * time.Millisecond})
	if status, _, err := fetch(t, c, &Request{URL: s.URL + "/busy?after=100"}); status != 429 || err != nil {
		t.Fatalf("%d, %v", status, err)
	}
	_, _, err := fetch(t, c, &Request{URL: s.URL + "/ok"})
	if f, ok := errors.AsType[*Failure](err); !ok || f.Kind != KindBusy || f.After < 90*time.Second || f.After > 100*time.Second || s.Count("/ok") != 0 {
		t.Errorf("%v", err)
	}
}

// TestWatchdog moves the phases by hand, where real connections are too quick.
func TestWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		w := newWatchdog(Timeouts{Connect: time.Second, TLS: 2 * time.Second, FirstByte: 3 * time.Second, Idle: 4 * time.Second}, cancel)
		trace := w.trace()
		trace.GetConn("")
		time.Sleep(900 * time.Millisecond) // of synctest's clock, as below
		trace.TLSHandshakeStart()
		time.Sleep(1900 * time.Millisecond)
		synctest.Wait()
		if ctx.Err() != nil {
			t.Fatalf("too early: %v", context.Cause(ctx))
		}
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		if f, _ := errors.AsType[*Failure](context.Cause(ctx)); f == nil || f.Phase != "tls" {
			t.Errorf("tls: %v", context.Cause(ctx))
		}
		w.stop()

		ctx, cancel = context.WithCancelCause(t.Context())
		w = newWatchdog(Timeouts{Connect: time.Second}, cancel)
		w.trace().GetConn("")
		time.Sleep(time.Second)
		synctest.Wait()
		if f, _ := errors.AsType[*Failure](context.Cause(ctx)); f == nil || f.Phase != "connect" || f.Error() != "no connection within 1s" {
			t.Errorf("connect: %v", context.Cause(ctx))
		}
		w.stop()
	})
}

// TestUploadStall has the server take nothing: the idle limit ends it.
func TestUploadStall(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	body := Text(strings.Repeat("x", 64<<20), "")
	_, _, err := fetch(t, local(t, Options{}), &Request{Method: "POST", URL: server.URL, Body: body, Timeouts: Timeouts{Idle: 100 * time.Millisecond, Total: 10 * time.Second}})
	if f, ok := errors.AsType[*Failure](err); !ok || f.Phase != "idle" {
		t.Errorf("%v", err)
	}
}

// Tokens beyond a minute's budget are waited out by the next request, whoever sends it.
func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limitsOf(Options{PerHost: Limit{TokensPerMinute: 600}, MaxWait: 5 * time.Minute})
		began := time.Now()
		next := func() time.Duration {
			turn, err := l.wait(t.Context(), place{host: "model", hostPort: "model:443"})
			if err != nil {
				t.Fatal(err)
			}
			defer turn.end()
			turn.spend(400)
			return time.Since(began).Round(time.Second)
		}
		// 600 are there at once; after 800 the next one waits for 200, which takes 20 s, and so on.
		for i, want := range []time.Duration{0, 0, 20 * time.Second, 60 * time.Second} {
			if got := next(); got != want {
				t.Errorf("request %d went after %s, want %s", i, got, want)
			}
		}
	})
}

// One sidecar carries many services: each has limits and a breaker of its own, and the sidecar's counts failed connections only.
func TestGateOfAService(t *testing.T) {
	l := limitsOf(Options{Hosts: map[string]Limit{"dapr:small": {Concurrent: 1}}, Breaker: Breaker{Failures: 3}, MaxWait: time.Millisecond})
	at := func(app string) place {
		return place{gate: "dapr:" + app, host: "127.0.0.1", hostPort: "127.0.0.1:3500"}
	}
	exchange := func(p place, answer, reach error) error {
		turn, err := l.wait(t.Context(), p)
		if err != nil {
			return err
		}
		defer turn.end()
		turn.tell(answer)
		turn.reached(reach)
		return nil
	}
	away := &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "503"}
	for range 3 {
		if err := exchange(at("bad"), away, nil); err != nil {
			t.Fatal(err)
		}
	}
	if f, ok := errors.AsType[*Failure](exchange(at("bad"), nil, nil)); !ok || f.Kind != KindBusy || !strings.Contains(f.Error(), "dapr:bad") {
		t.Errorf("an app that failed three times is not left alone: %v", f)
	}
	held, err := l.wait(t.Context(), at("small"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.end()
	if _, err := l.wait(t.Context(), at("small")); err == nil {
		t.Error("the limit named for the app does not hold")
	}
	for range 3 {
		if err := exchange(at("good"), errExcluded, away); err != nil {
			t.Fatalf("another app is held up: %v", err)
		}
	}
	if f, ok := errors.AsType[*Failure](exchange(at("new"), nil, nil)); !ok || !strings.Contains(f.Error(), "127.0.0.1:3500") {
		t.Errorf("a sidecar without connections is not left alone: %v", f)
	}
}
