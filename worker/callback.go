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
	"github.com/stepwell/stepwell/store"
)

// maxCallbacks bounds the addresses of one step.
const maxCallbacks = 1000

// memoCallback is what is recorded of a step's n-th address: the number in its key, and with usedCallback behind
// it the attempt that awaited it.
func memoCallback(n int) string { return fmt.Sprintf("callback.%d", n) }

const usedCallback = ".used"

// callback gives the step's address for something outside. It stays the same until an attempt has awaited it
// and another begins: work that was asked for twice, because an answer got lost or the process did, answers to
// one address. It is another one after a restart, so that late answers to what was given up find nobody.
func (p *Pool) callback(ctx context.Context, j *job) (key, url string, err error) {
	if p.o.CallbackURL == nil {
		return (&action.Call{}).Callback(ctx) // says so
	}
	j.calling.Lock()
	defer j.calling.Unlock()
	for n := max(j.callbackNo, 1); j.callbackKey == "" && n <= maxCallbacks; n++ {
		used, err := p.recallNumber(ctx, j, memoCallback(n)+usedCallback)
		if err != nil {
			return "", "", err
		}
		if used > 0 && used < j.task.Attempt {
			continue
		}
		number, err := p.recallNumber(ctx, j, memoCallback(n))
		if err != nil {
			return "", "", err
		}
		if number == 0 {
			number = int(j.task.Epoch)
			if err := p.recordNumber(ctx, j, memoCallback(n), number); err != nil {
				return "", "", err
			}
		}
		j.callbackNo, j.callbackKey = n, fmt.Sprintf("callback:%s/%s#%d", j.task.Execution, j.task.Key, number)
	}
	if j.callbackKey == "" {
		return "", "", &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("the step has awaited %d callbacks", maxCallbacks)}
	}
	return j.callbackKey, p.o.CallbackURL(j.callbackKey), nil
}

// noteCallback records that an attempt awaits the step's address, before it does.
func (p *Pool) noteCallback(j *job, w *engine.Wait) error {
	j.calling.Lock()
	defer j.calling.Unlock()
	if !w.Await || j.callbackKey == "" || w.External != j.callbackKey {
		return nil
	}
	return p.recordNumber(p.ctx, j, memoCallback(j.callbackNo)+usedCallback, j.task.Attempt)
}

func (p *Pool) recallNumber(ctx context.Context, j *job, key string) (int, error) {
	var raw json.RawMessage
	var ok bool
	err := j.await(ctx, p, func() (err error) {
		raw, ok, err = p.o.Records.Memo(ctx, j.task.Run, j.task.Idx, key)
		return err
	})
	if err != nil || !ok {
		return 0, unavailable(err)
	}
	return strconv.Atoi(string(raw))
}

func (p *Pool) recordNumber(ctx context.Context, j *job, key string, n int) error {
	return unavailable(j.await(ctx, p, func() error {
		return p.o.Records.PutMemo(ctx, store.Memo{Execution: j.task.Run, Step: j.task.Idx, Key: key, Value: json.RawMessage(strconv.Itoa(n))})
	}))
}

// unavailable lets the step be tried again.
func unavailable(err error) error {
	if err == nil {
		return nil
	}
	return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the step's address for callbacks", Err: err, Hint: stepwell.HintOf(err)}
}

// withCallback is what the templates of a step see that names its callback.
func (p *Pool) withCallback(j *job) (expr.Scope, error) {
	key, url, err := p.callback(j.ctx, j)
	if err != nil {
		return nil, err
	}
	return layered{extra: map[string]any{"callback": map[string]any{"url": url, "key": key}}, under: p.scope(j)}, nil
}
