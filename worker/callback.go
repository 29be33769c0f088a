package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/expr"
)

// maxCallbacks bounds the addresses of one step.
const maxCallbacks = 1000

// memoCallback is the memo of a step's n-th address: its key holds the number, and with the suffix usedCallback the
// attempt that awaited it.
func memoCallback(n int) string { return fmt.Sprintf("callback.%d", n) }

const usedCallback = ".used"

// callback returns the step's callback address. It stays the same until an attempt has awaited it and another begins:
// work requested twice, after a lost answer or a crash, answers to one address. A restart gets a new one, so that
// late answers to superseded work match no step.
func (a *attempt) callback(ctx context.Context) (key, url string, err error) {
	if a.r.o.CallbackURL == nil {
		return (&action.Call{}).Callback(ctx) // says so
	}
	a.calling.Lock()
	defer a.calling.Unlock()
	for n := max(a.CallbackNo, 1); a.CallbackKey == "" && n <= maxCallbacks; n++ {
		used, err := a.recallNumber(ctx, memoCallback(n)+usedCallback)
		if err != nil {
			return "", "", err
		}
		if used > 0 && used < a.Task.Attempt {
			continue
		}
		number, err := a.recallNumber(ctx, memoCallback(n))
		if err != nil {
			return "", "", err
		}
		if number == 0 {
			number = int(a.Task.Epoch)
			if err := a.recordNumber(ctx, memoCallback(n), number); err != nil {
				return "", "", err
			}
		}
		a.CallbackNo, a.CallbackKey = n, fmt.Sprintf("callback:%s/%s#%d", a.Task.Execution, a.Task.Key, number)
	}
	if a.CallbackKey == "" {
		return "", "", stepwell.Errorf(stepwell.CodeLimit, "", "the step has awaited %d callbacks", maxCallbacks)
	}
	return a.CallbackKey, a.r.o.CallbackURL(a.CallbackKey), nil
}

// recordCallbackUse records that an attempt awaits the step's address, before it does.
func (a *attempt) recordCallbackUse(w *engine.Wait) error {
	a.calling.Lock()
	defer a.calling.Unlock()
	if !w.Await || a.CallbackKey == "" || w.External != a.CallbackKey {
		return nil
	}
	return a.recordNumber(a.process, memoCallback(a.CallbackNo)+usedCallback, a.Task.Attempt)
}

func (a *attempt) recallNumber(ctx context.Context, key string) (int, error) {
	raw, ok, err := a.memo(ctx, key)
	if err != nil || !ok {
		return 0, unavailable(err)
	}
	return strconv.Atoi(string(raw))
}

func (a *attempt) recordNumber(ctx context.Context, key string, n int) error {
	return unavailable(a.putMemo(ctx, key, json.RawMessage(strconv.Itoa(n))))
}

// unavailable lets the step be tried again, but not an attempt that no longer counts (CodeConflict).
func unavailable(err error) error {
	if err == nil || stepwell.CodeOf(err) == stepwell.CodeConflict {
		return err
	}
	return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the step's address for callbacks", Err: err, Hint: stepwell.HintOf(err)}
}

// callbackScope holds the values for templates of a step that names its callback.
func (a *attempt) callbackScope() (expr.Scope, error) {
	key, url, err := a.callback(a.ctx)
	if err != nil {
		return nil, err
	}
	return expr.Layered{Extra: map[string]any{"callback": map[string]any{"url": url, "key": key}}, Under: a.templateScope()}, nil
}
