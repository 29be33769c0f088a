package outbound

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"0": 0, "120": 2 * time.Minute, " 3 ": 3 * time.Second, "1.5": 1500 * time.Millisecond, "-5": 0, "1e99": 365 * 24 * time.Hour, "99999999999999": 365 * 24 * time.Hour,
		"Sun, 01 Mar 2026 12:00:30 GMT": 30 * time.Second, "Sunday, 01-Mar-26 12:01:00 GMT": time.Minute, "Sun Mar  1 13:00:00 2026": time.Hour,
		"Sun, 01 Mar 2026 11:00:00 GMT": 0, "Fri, 31 Dec 9999 23:59:59 GMT": 365 * 24 * time.Hour,
	} {
		if got, ok := RetryAfter(http.Header{"Retry-After": {text}}, now); !ok || got != want {
			t.Errorf("%q: %s %t, want %s", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "soon", "NaN", "12 s", "2026-03-01T12:00:00Z", "Sun, 32 Mar 2026 12:00:00 GMT"} {
		if got, ok := RetryAfter(http.Header{"Retry-After": {text}}, now); ok {
			t.Errorf("%q: %s", text, got)
		}
	}
	skewed := http.Header{"Retry-After": {"Sun, 01 Mar 2026 09:00:10 GMT"}, "Date": {"Sun, 01 Mar 2026 09:00:00 GMT"}}
	if got, _ := RetryAfter(skewed, now); got != 10*time.Second {
		t.Errorf("by the server's clock: %s", got)
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"1", "-1", "1e400", "Inf", "Sun, 01 Mar 2026 12:00:30 GMT", "0x10", "1_000"} {
		f.Add(s, "")
	}
	f.Fuzz(func(t *testing.T, text, date string) {
		got, ok := RetryAfter(http.Header{"Retry-After": {text}, "Date": {date}}, time.Unix(1e9, 0))
		if got < 0 || got > 365*24*time.Hour || !ok && got != 0 {
			t.Errorf("%q: %s %t", text, got, ok)
		}
	})
}

func TestPolicy(t *testing.T) {
	judge := func(p Policy, kind Kind, status int, told bool) Verdict {
		return p.Judge(&Failure{Kind: kind, Status: status, Told: told})
	}
	for status, want := range map[int]Verdict{408: Again, 425: Again, 429: Again, 500: Once, 502: Again, 503: Again, 504: Once, 529: Again,
		301: Permanent, 400: Permanent, 401: Permanent, 404: Permanent, 409: Permanent, 413: Permanent, 415: Permanent, 422: Permanent, 501: Permanent, 505: Permanent} {
		if got := judge(Policy{}, KindStatus, status, false); got != want {
			t.Errorf("%d: %s, want %s", status, got, want)
		}
	}
	for kind, want := range map[Kind]Verdict{KindDNS: Again, KindConnect: Again, KindTimeout: Again, KindReset: Again, KindTruncated: Again, KindProtocol: Again,
		KindResult: Again, KindInvalid: Permanent, KindBlocked: Permanent, KindTLS: Permanent, KindLimit: Permanent, KindContent: Permanent} {
		if got := judge(Policy{}, kind, 0, false); got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
	p := Policy{RetryOn: []string{"409", "tls", "4xx"}, FailOn: []string{"503", "reset", "404"}}
	for _, test := range []struct {
		kind   Kind
		status int
		told   bool
		want   Verdict
	}{{KindStatus, 409, false, Again}, {KindTLS, 0, false, Again}, {KindStatus, 418, false, Again}, {KindStatus, 404, false, Permanent}, {KindStatus, 503, true, Permanent},
		{KindReset, 0, false, Permanent}, {KindStatus, 429, true, Deferred}, {KindBusy, 0, true, Deferred}, {KindStatus, 500, true, Once}} {
		if got := judge(p, test.kind, test.status, test.told); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
	for _, rule := range []string{"", "99", "600", "6xx", "xx", "44xx", "slow", "busy"} {
		if err := (Policy{FailOn: []string{rule}}).Check(); stepwell.CodeOf(err) != stepwell.CodeInvalid {
			t.Errorf("rule %q: %v", rule, err)
		}
	}
}

// memos is a host that remembers, as the store does: the first value of a key stays.
type memos struct {
	action.Host
	values map[string]json.RawMessage
	err    error
}

// Recall implements action.Host.
func (m memos) Recall(_ context.Context, key string) (json.RawMessage, bool, error) {
	raw, ok := m.values[key]
	return raw, ok, m.err
}

// Record implements action.Host.
func (m memos) Record(_ context.Context, key string, value json.RawMessage) error {
	if _, ok := m.values[key]; !ok {
		m.values[key] = value
	}
	return m.err
}

func TestSteer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call := &action.Call{Host: memos{values: map[string]json.RawMessage{}}}
		steer := func(f *Failure) (after time.Duration, deferred, failed bool) {
			f.Err = &stepwell.Error{Code: stepwell.CodeFailed, Message: "x"}
			err := Steer(t.Context(), call, f, Policy{MaxDefer: time.Hour})
			r, ok := errors.AsType[*action.RetryError](err)
			if !ok {
				r = &action.RetryError{After: -1}
			}
			if !errors.Is(err, f) || ok == action.IsFail(err) {
				t.Errorf("%+v became %v", f, err)
			}
			return r.After, r.Defer, action.IsFail(err)
		}
		if _, _, failed := steer(&Failure{Kind: KindStatus, Status: 500}); failed {
			t.Error("the first 500 fails")
		}
		if _, _, failed := steer(&Failure{Kind: KindStatus, Status: 504}); failed {
			t.Error("the first 504 fails")
		}
		if _, _, failed := steer(&Failure{Kind: KindStatus, Status: 500}); !failed {
			t.Error("the second 500 does not fail")
		}
		busy := func() *Failure { return &Failure{Kind: KindStatus, Status: 429, Told: true, After: 7 * time.Second} }
		if after, deferred, _ := steer(busy()); !deferred || after != 7*time.Second {
			t.Errorf("busy: %s %t", after, deferred)
		}
		if after, deferred, _ := steer(&Failure{Kind: KindStatus, Status: 503, Told: true, After: 48 * time.Hour}); !deferred || after != time.Hour {
			t.Errorf("for long: %s %t", after, deferred)
		}
		if after, deferred, _ := steer(&Failure{Kind: KindStatus, Status: 429, Told: true}); !deferred || after != time.Second {
			t.Errorf("at once: %s %t", after, deferred)
		}
		if after, deferred, _ := steer(&Failure{Kind: KindStatus, Status: 502, Told: true, After: 3 * time.Second}); deferred || after != 3*time.Second {
			t.Errorf("502: %s %t", after, deferred)
		}
		time.Sleep(time.Hour) // of synctest's clock
		if after, deferred, failed := steer(busy()); deferred || failed || after != 7*time.Second {
			t.Errorf("an hour later it is still put back: %s", after)
		}
		away := &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "store"}
		call.Host = memos{err: away}
		for _, f := range []*Failure{busy(), {Kind: KindStatus, Status: 500}} {
			f.Err = away
			if err := Steer(t.Context(), call, f, Policy{}); err != error(away) { //nolint:errorlint // exactly that one
				t.Errorf("without a store: %v", err)
			}
		}
	})
}

func TestHeaderKey(t *testing.T) {
	if got := HeaderKey("e1/step:a"); got != "e1/step:a" {
		t.Error(got)
	}
	for _, key := range []string{"e1/é", "a b", "a\nb", strings.Repeat("x", 201)} {
		if got := HeaderKey(key); len(got) != 64 || got == HeaderKey(key+"x") {
			t.Errorf("%q: %s", key, got)
		}
	}
}
