package action_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

var errAway = errors.New("away")

func TestSteeringErrors(t *testing.T) {
	for name, test := range map[string]struct {
		err   error
		after time.Duration
		defers,
		fails bool
	}{
		"retry": {action.Retry(time.Minute, errAway), time.Minute, false, false},
		"defer": {action.Defer(time.Hour, errAway), time.Hour, true, false},
		"fail":  {action.Fail(errAway), 0, false, true},
	} {
		retry, ok := errors.AsType[*action.RetryError](test.err)
		if ok == test.fails || ok && (retry.After != test.after || retry.Defer != test.defers) {
			t.Errorf("%s: %+v", name, retry)
		}
		if !errors.Is(test.err, errAway) || test.err.Error() != "away" || action.IsFail(test.err) != test.fails {
			t.Errorf("%s: %v, fail %v", name, test.err, action.IsFail(test.err))
		}
	}
	until := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	if text := action.WaitUntil(until, nil).Error(); text != "waits until 2030-01-02T03:04:05Z" {
		t.Error(text)
	}
	if err := action.Poll(until, "", make(chan int)); !action.IsFail(err) {
		t.Errorf("state that is no JSON: %v", err)
	}
}

func TestBind(t *testing.T) {
	var p struct {
		Name  string `json:"name"`
		Count int    `json:"count"`
	}
	call := action.Call{Execution: "e", StepKey: "s:1", Params: map[string]any{"name": "x", "count": 3}}
	if err := call.Bind(&p); err != nil || p.Name != "x" || p.Count != 3 {
		t.Errorf("%+v, %v", p, err)
	}
	for _, bad := range []map[string]any{{"count": "many"}, {"name": make(chan int)}} {
		if err := (&action.Call{Params: bad}).Bind(&p); !action.IsFail(err) {
			t.Errorf("%v: %v, want a failure for good", bad, err)
		}
	}
	if key := call.IdempotencyKey(); key != "e/s:1" {
		t.Error(key)
	}
}

// memory is a host that can only recall and record, or fails at it.
type memory struct {
	firstStays bool
	action.Host
	values map[string]json.RawMessage
	err    error
}

// Recall implements action.Host.
func (m memory) Recall(_ context.Context, key string) (json.RawMessage, bool, error) {
	raw, ok := m.values[key]
	return raw, ok, m.err
}

// Record implements action.Host.
func (m memory) Record(_ context.Context, key string, value json.RawMessage) error {
	if _, there := m.values[key]; !there || !m.firstStays {
		m.values[key] = value
	}
	return nil
}

// Two workers with the same message both run the work; both get what was recorded first (B24).
func TestOnceBesideAnother(t *testing.T) {
	host := memory{values: map[string]json.RawMessage{}, firstStays: true}
	got, err := action.Once(t.Context(), &action.Call{Host: host}, "key", func(ctx context.Context) (string, error) {
		return "late", host.Record(ctx, "key", json.RawMessage(`"first"`))
	})
	if got != "first" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestOnce(t *testing.T) {
	host := memory{values: map[string]json.RawMessage{}}
	call, runs := &action.Call{Host: host}, 0
	once := func(value any, err error) (any, error) {
		return action.Once(t.Context(), call, "key", func(context.Context) (any, error) { runs++; return value, err })
	}
	if _, err := once(nil, errAway); !errors.Is(err, errAway) || len(host.values) != 0 {
		t.Errorf("a failure is recorded: %v, %v", err, host.values)
	}
	if _, err := once(make(chan int), nil); !action.IsFail(err) {
		t.Errorf("a result that is no JSON: %v", err)
	}
	for range 2 {
		if got, err := once("first", nil); got != "first" || err != nil {
			t.Errorf("%v, %v", got, err)
		}
	}
	if runs != 3 {
		t.Errorf("%d runs, want two failed ones and one", runs)
	}
	call.Host = memory{err: &stepwell.Error{Code: stepwell.CodeUnavailable}}
	if _, err := once("x", nil); stepwell.CodeOf(err) != stepwell.CodeUnavailable || runs != 3 {
		t.Errorf("ran without knowing whether it had run: %v", err)
	}
}
