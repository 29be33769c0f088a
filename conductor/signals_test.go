package conductor_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// signal sends a signal and checks its fate.
func (r *rig) signal(key, id, body string, fresh, delivered bool) {
	r.t.Helper()
	f, d, err := r.Signal(r.t.Context(), store.Signal{Key: key, ID: id, Body: []byte(body)})
	if err != nil || f != fresh || d != delivered {
		r.t.Fatalf("signal %s/%s: fresh %v, delivered %v, error %v; want fresh %v, delivered %v", key, id, f, d, err, fresh, delivered)
	}
}

// waits signals when a step's row has the status waiting.
type waits struct {
	mu   sync.Mutex
	seen map[string]chan struct{}
}

func (w *waits) of(id string) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen == nil {
		w.seen = map[string]chan struct{}{}
	}
	if w.seen[id] == nil {
		w.seen[id] = make(chan struct{}, 100)
	}
	return w.seen[id]
}

func (w *waits) observe(u *conductor.Update) {
	for _, row := range u.Rows {
		if row.Status == stepwell.StepWaiting {
			w.of(u.Execution.ID) <- struct{}{}
		}
	}
}

func awaiting(n string) string { return one("t.await\n    params: {n: " + n + "}") }

func (r *rig) output(id, step string) string {
	r.t.Helper()
	x, err := r.store.Execution(r.t.Context(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(r.steps(x.No)[step].Output)
}

// A signal is kept until a step waits for it; a repetition is dropped; once taken it is gone.
func TestSignalBeforeWait(t *testing.T) {
	w := &waits{}
	r := newRig(t, build{observe: w.observe})
	r.signal("key-x", "1", `{"outputs":{"v":1}}`, true, false)
	r.signal("key-x", "1", `{"outputs":{"v":1}}`, false, false)
	r.signal("key-x", "2", `{"outputs":{"v":2}}`, true, false) // counts as one with the first
	id := r.begin(pipeline(t, awaiting("x")))
	r.end(id, stepwell.ExecutionCompleted)
	if out := r.output(id, "a"); out != `{"v":1}` {
		t.Errorf("output %s", out)
	}
	next := r.begin(pipeline(t, awaiting("x")))
	<-w.of(next)
	r.signal("key-x", "1", `{"outputs":{"v":1}}`, false, false)
	r.signal("key-x", "3", `{"outputs":{"v":3}}`, true, true)
	if out := r.output(next, "a"); out != `{"v":3}` { // durable when Signal returns
		t.Errorf("output %s", out)
	}
	r.end(next, stepwell.ExecutionCompleted)
	if list, err := r.store.SignalsFor(t.Context(), []string{"key-x"}); err != nil || len(list) != 0 {
		t.Errorf("pending are %v, error %v", list, err)
	}
}

// All steps that wait for a key get its signal, with any outcome.
func TestSignalEnds(t *testing.T) {
	w := &waits{}
	r := newRig(t, build{observe: w.observe})
	first, second := r.begin(pipeline(t, awaiting("x"))), r.begin(pipeline(t, awaiting("x")))
	<-w.of(first)
	<-w.of(second)
	r.signal("key-x", "", `{"status":"failed","error":"no paper","by":"printer"}`, true, true)
	for _, id := range []string{first, second} {
		x := r.end(id, stepwell.ExecutionFailed)
		if s := r.steps(x.No)["a"]; s.Error == nil || s.Error.Message != "no paper" || s.Worker != "printer" {
			t.Errorf("the step is %+v", s)
		}
	}
	skipped := r.begin(pipeline(t, awaiting("y")))
	<-w.of(skipped)
	r.signal("key-y", "", `{"status":"skipped"}`, true, true)
	x := r.end(skipped, stepwell.ExecutionCompleted)
	if s := r.steps(x.No)["a"]; s.Status != stepwell.StepSkipped {
		t.Errorf("the step is %s", s.Status)
	}
	large := r.begin(pipeline(t, awaiting("z")))
	<-w.of(large)
	text := `{"text":"` + strings.Repeat("x", 100<<10) + `"}`
	r.signal("key-z", "", `{"outputs":`+text+`}`, true, true)
	r.end(large, stepwell.ExecutionCompleted)
	if ref := r.output(large, "a"); !engine.IsRef([]byte(ref)) {
		t.Errorf("the large output is stored as %.40s", ref)
	} else if raw, err := r.store.Blobs().Load(t.Context(), ref); err != nil || string(raw) != text {
		t.Errorf("the large output is %d bytes, error %v", len(raw), err)
	}
}

// awayBlobs refuses the first values to be stored.
type awayBlobs struct {
	store.Blobs
	refuse atomic.Int32
}

func (b *awayBlobs) Put(ctx context.Context, body []byte) (string, error) {
	if b.refuse.Add(-1) >= 0 {
		return "", &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the disk is full"}
	}
	return b.Blobs.Put(ctx, body)
}

// A signal whose outputs cannot be stored for a moment is not lost: it is delivered when they can.
func TestSignalIsDeliveredLater(t *testing.T) {
	w, blobs := &waits{}, &awayBlobs{}
	r := newRig(t, build{observe: w.observe, set: func(o *conductor.Options) { blobs.Blobs, o.Blobs = o.Blobs, blobs }})
	first, second := r.begin(pipeline(t, awaiting("x"))), r.begin(pipeline(t, awaiting("x")))
	<-w.of(first)
	<-w.of(second)
	blobs.refuse.Store(1) // the first of the two is refused, the other is not
	r.signal("key-x", "1", `{"outputs":{"text":"`+strings.Repeat("x", 100<<10)+`"}}`, true, true)
	r.end(first, stepwell.ExecutionCompleted)
	r.end(second, stepwell.ExecutionCompleted)
	if err := r.Stalled(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// Signals without a waiting step do not count against the limit of awaited ones.
func TestSignalsThatFillTheRoom(t *testing.T) {
	w := &waits{}
	r := newRig(t, build{observe: w.observe, set: func(o *conductor.Options) { o.MaxKept = 4000 }})
	id := r.begin(pipeline(t, awaiting("x")))
	<-w.of(id)
	large := `{"outputs":{"a":"` + strings.Repeat("x", 1000) + `"}}`
	for i := range 4 {
		r.signal(fmt.Sprint("spam-", i), "1", large, true, false)
	}
	if _, _, err := r.Signal(t.Context(), store.Signal{Key: "spam", Body: []byte("{}")}); stepwell.CodeOf(err) != stepwell.CodeLimit {
		t.Fatalf("one more that nobody waits for: %v", err)
	}
	r.signal("key-x", "1", `{}`, true, true)
	r.end(id, stepwell.ExecutionCompleted)
}

func TestSignalRefused(t *testing.T) {
	r := newRig(t, build{})
	for body, code := range map[string]stepwell.Code{`{"status":"done"}`: stepwell.CodeInvalid, `[]`: stepwell.CodeInvalid, `{"outputs":[1]}`: stepwell.CodeInvalid,
		`{"outputs":{"a":"` + strings.Repeat("x", 16<<20) + `"}}`: stepwell.CodeLimit} {
		if _, _, err := r.Signal(t.Context(), store.Signal{Key: "k", Body: []byte(body)}); stepwell.CodeOf(err) != code {
			t.Errorf("%.30s: %v, want %s", body, err, code)
		}
	}
	if _, _, err := r.Signal(t.Context(), store.Signal{}); stepwell.CodeOf(err) != stepwell.CodeInvalid {
		t.Errorf("without a key: %v", err)
	}
	if _, _, err := r.Signal(t.Context(), store.Signal{Key: conductor.ApprovalPrefix + "x/y"}); stepwell.CodeOf(err) != stepwell.CodeConflict {
		t.Errorf("a decision that nobody waits for: %v", err)
	}
}

// Signal and wait come at the same moment: whichever is first, the step ends.
func TestSignalAtTheSameMoment(t *testing.T) {
	r := newRig(t, build{})
	p := r.register(pipeline(t, "name: many\nparameters: [{name: n, type: string}]\nsteps:\n  - {id: a, action: t.await, params: {n: \"{{ params.n }}\"}}\n"))
	var group sync.WaitGroup
	for i := range 300 {
		group.Go(func() {
			id, err := r.Start(t.Context(), conductor.Request{Pipeline: p, Params: map[string]any{"n": fmt.Sprint(i)}})
			if err != nil {
				t.Error(err)
				return
			}
			if x, err := r.Wait(t.Context(), id); err != nil || x.Status != stepwell.ExecutionCompleted {
				t.Errorf("execution %d: %v, error %v", i, x, err)
			}
		})
		group.Go(func() {
			if _, _, err := r.Signal(t.Context(), store.Signal{Key: fmt.Sprint("key-", i), ID: "1"}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

// A step that finds a signal in the store before those here are told of it has got it, and the sender hears that.
func TestSignalThatWasFound(t *testing.T) {
	w := &waits{}
	var r *rig
	r = newRig(t, build{observe: w.observe, set: func(o *conductor.Options) {
		o.Signalled = func(ctx context.Context, s store.Signal) {
			if err := r.Deliver(ctx, []string{s.Key}); err != nil {
				t.Error(err)
			}
			for left := []store.Signal{s}; len(left) > 0 && ctx.Err() == nil; {
				var err error
				if left, err = r.store.SignalsFor(ctx, []string{s.Key}); err != nil {
					t.Error(err)
				}
			}
		}
	}})
	id := r.begin(pipeline(t, awaiting("x")))
	<-w.of(id)
	r.signal("key-x", "1", `{"outputs":{"v":1}}`, true, true)
	r.end(id, stepwell.ExecutionCompleted)
}

// After a restart both sides are still there: a step that waits and a signal that nobody waited for.
func TestSignalAfterRestart(t *testing.T) {
	db := filepath.Join(t.TempDir(), "signals.db")
	w := &waits{}
	r := newRig(t, build{db: db, observe: w.observe})
	asks := r.begin(pipeline(t, awaiting("x")))
	<-w.of(asks)
	r.signal("key-y", "1", `{"outputs":{"v":1}}`, true, false)
	r.stop()
	again := newRig(t, build{db: db})
	if err := again.RecoverAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	again.signal("key-y", "1", `{"outputs":{"v":1}}`, false, false)
	again.signal("key-x", "1", `{}`, true, true)
	again.end(asks, stepwell.ExecutionCompleted)
	comes := again.begin(pipeline(t, awaiting("y")))
	again.end(comes, stepwell.ExecutionCompleted)
	if out := again.output(comes, "a"); out != `{"v":1}` {
		t.Errorf("output %s", out)
	}
}

// A cancelled or timed-out step takes no signal away; retention removes old ones.
func TestSignalIsNotLostToTheDead(t *testing.T) {
	w := &waits{}
	r := newRig(t, build{observe: w.observe})
	gone := r.begin(pipeline(t, awaiting("x")))
	<-w.of(gone)
	if err := r.Cancel(t.Context(), gone, ""); err != nil {
		t.Fatal(err)
	}
	late := r.begin(pipeline(t, awaiting("x")+"    timeout_seconds: 0.01\n"))
	r.end(late, stepwell.ExecutionFailed)
	r.signal("key-x", "1", `{"outputs":{"v":1}}`, true, false)
	id := r.begin(pipeline(t, awaiting("x")))
	r.end(id, stepwell.ExecutionCompleted)
	r.signal("key-x", "2", `{}`, true, false)
	if _, _, err := r.store.Prune(t.Context(), store.Retention{Keys: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	waiting := r.begin(pipeline(t, awaiting("x")))
	<-w.of(waiting)
	r.signal("key-x", "3", `{"outputs":{"v":3}}`, true, true)
	r.end(waiting, stepwell.ExecutionCompleted)
	if out := r.output(waiting, "a"); out != `{"v":3}` {
		t.Errorf("output %s", out)
	}
}

// util.approval from end to end, its rejection, and a second decision.
func TestApproval(t *testing.T) {
	w := &waits{}
	r := newRig(t, build{observe: w.observe})
	text := one("util.approval\n    params: {message: \"Go {{ 1 + 1 }}?\", approvers: [anna]}")
	decide := func(approved bool) string {
		return fmt.Sprintf(`{"outputs":{"approved":%v,"by":"anna","comment":"because"},"by":"anna"}`, approved)
	}
	id := r.begin(pipeline(t, text))
	<-w.of(id)
	list, err := r.Awaiting(t.Context(), id)
	if err != nil || len(list) != 1 || !strings.Contains(string(list[0].State), `"message":"Go 2?","approvers":["anna"]`) || list[0].External != "approval:"+id+"/a" {
		t.Fatalf("awaiting %+v, error %v", list, err)
	}
	key := list[0].External
	r.signal(key, "1", decide(true), true, true)
	r.end(id, stepwell.ExecutionCompleted)
	if _, _, err := r.Signal(t.Context(), store.Signal{Key: key, ID: "2", Body: []byte(decide(false))}); stepwell.CodeOf(err) != stepwell.CodeConflict {
		t.Errorf("a second decision: %v", err)
	}
	no := r.begin(pipeline(t, text))
	<-w.of(no)
	r.signal("approval:"+no+"/a", "1", decide(false), true, true)
	if x := r.end(no, stepwell.ExecutionFailed); x.Failure == nil || x.Failure.Message != "rejected by anna: because" {
		t.Errorf("the failure is %+v", x.Failure)
	}
	anyway := r.begin(pipeline(t, strings.Replace(text, "approvers", "reject: continues, approvers", 1)))
	<-w.of(anyway)
	r.signal("approval:"+anyway+"/a", "1", decide(false), true, true)
	r.end(anyway, stepwell.ExecutionCompleted)
	auto := r.begin(pipeline(t, strings.Replace(text, "approvers", "timeout_seconds: 0.01, default: approve, approvers", 1)))
	r.end(auto, stepwell.ExecutionCompleted)
	if out := r.output(auto, "a"); !strings.Contains(out, `"automatic":true`) {
		t.Errorf("output %s", out)
	}
}

// The address for a callback stays the same until an attempt has awaited it, and is another one then and after a
// restart.
func TestCallbackAddress(t *testing.T) {
	var keys []string
	w := &waits{}
	call := action.Action{Spec: basicActions(time.Now)[0].Spec}
	call.Spec.Name = "t.call"
	call.Handler = callHandler(func(c *action.Call) (any, error) {
		key, url, err := c.Callback(t.Context())
		if err != nil || url != "https://here.example.com/"+key || c.Params["n"] != url {
			t.Errorf("key %s, url %s, in the template %v, error %v", key, url, c.Params["n"], err)
		}
		keys = append(keys, key)
		if c.Attempt == 1 {
			return nil, fmt.Errorf("the answer got lost")
		}
		return nil, action.Await(key, time.Time{}, nil)
	})
	r := newRig(t, build{observe: w.observe, actions: []action.Action{call}})
	id := r.begin(pipeline(t, one("t.call\n    params: {n: \"{{ callback.url }}\"}\n    retry: {max_attempts: 5, backoff_seconds: 0.001}")))
	<-w.of(id)
	r.signal(keys[1], "1", `{"status":"failed","error":"the work failed"}`, true, true)
	<-w.of(id) // the next attempt
	if err := r.Restart(t.Context(), id, "a", false); err != nil {
		t.Fatal(err)
	}
	<-w.of(id)
	last := keys[len(keys)-1]
	r.signal(last, "1", `{}`, true, true)
	r.end(id, stepwell.ExecutionCompleted)
	if len(keys) < 4 || keys[0] != keys[1] || keys[2] == keys[1] || last == keys[2] || last == keys[1] {
		t.Errorf("the addresses were %q", keys)
	}
}
