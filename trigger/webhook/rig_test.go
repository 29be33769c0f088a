package webhook_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/secret"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/sqlite"
	"github.com/stepwell/stepwell/trigger"
	"github.com/stepwell/stepwell/trigger/webhook"
)

// ledger stands for everything behind a launch.
type ledger struct {
	mu       sync.Mutex
	launches []pipeline.Launch
	keys     map[string]int
	refuse   error
}

func (l *ledger) Launch(_ context.Context, in pipeline.Launch) (*pipeline.Launched, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse != nil {
		return nil, l.refuse
	}
	if n, ok := l.keys[in.Key]; ok && in.Key != "" {
		if string(l.launches[n].KeyHash) != string(in.KeyHash) {
			return nil, &stepwell.Error{Code: stepwell.CodeConflict, Message: "the key was used for another request"}
		}
		return &pipeline.Launched{Execution: fmt.Sprint("x", n)}, nil
	}
	l.keys[in.Key] = len(l.launches)
	l.launches = append(l.launches, in)
	return &pipeline.Launched{Execution: fmt.Sprint("x", len(l.launches)-1), Fresh: true}, nil
}

func (l *ledger) Execution(context.Context, string) (*store.Execution, error) {
	return &store.Execution{Status: stepwell.ExecutionRunning}, nil
}
func (l *ledger) Cancel(context.Context, string, string) error { return nil }
func (l *ledger) StartKey(context.Context, string) (*store.StartKey, error) {
	return nil, &stepwell.Error{Code: stepwell.CodeNotFound, Message: "no such key"}
}

func (l *ledger) last(t *testing.T) pipeline.Launch {
	t.Helper()
	if len(l.launches) == 0 {
		t.Fatal("nothing was started")
	}
	return l.launches[len(l.launches)-1]
}

type rig struct {
	*webhook.Hooks
	t      testing.TB
	jobs   *trigger.Schedules
	ledger *ledger
	store  *sqlite.Store
	file   string
	ring   *secret.Keyring
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, ledger: &ledger{keys: map[string]int{}}, file: filepath.Join(t.TempDir(), "hooks.db")}
	var err error
	if r.store, err = sqlite.Open(t.Context(), sqlite.Options{Path: r.file, Exclusive: true, Synchronous: "normal"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.store.Close(); err != nil {
			t.Error(err)
		}
	})
	if r.ring, err = secret.NewKeyring(make([]byte, 32)); err != nil {
		t.Fatal(err)
	}
	r.boot()
	return r
}

// boot opens what is stored.
func (r *rig) boot() {
	r.t.Helper()
	var err error
	r.jobs, err = trigger.New(r.t.Context(), trigger.Options{Objects: r.store, Launcher: r.ledger, Executions: r.ledger, Canceler: r.ledger, Keys: r.ledger})
	if err != nil {
		r.t.Fatal(err)
	}
	if r.Hooks, err = webhook.New(r.t.Context(), webhook.Options{Objects: r.store, Launcher: r.ledger, Jobs: r.jobs, Sealer: r.ring}); err != nil {
		r.t.Fatal(err)
	}
}

// hook stores a webhook that runs util.noop.
func (r *rig) hook(w webhook.Webhook, given string) string {
	r.t.Helper()
	if w.Target == nil && w.Job == "" {
		w.Target = &trigger.Target{Action: "util.noop"}
	}
	made, err := r.Create(r.t.Context(), &webhook.Draft{Webhook: w, Secret: given}, "tester")
	if err != nil {
		r.t.Fatal(err)
	}
	return made.Secret
}

var somewhere = netip.MustParseAddr("203.0.113.9")

// call is a delivery with headers, which come in pairs.
func call(body string, headers ...string) webhook.Delivery {
	d := webhook.Delivery{Header: http.Header{}, Body: []byte(body), From: somewhere}
	for i := 0; i < len(headers); i += 2 {
		d.Header.Add(headers[i], headers[i+1])
	}
	return d
}

func sign(key, text string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

// signed is a delivery in the package's own form.
func signed(key, id, body string, at time.Time) webhook.Delivery {
	text := fmt.Sprintf("%d.%s", at.Unix(), body)
	d := call(body, webhook.HeaderTimestamp, fmt.Sprint(at.Unix()))
	if id != "" {
		text = id + "." + text
		d.Header.Set(webhook.HeaderID, id)
	}
	d.Header.Set(webhook.HeaderSignature, "sha256="+sign(key, text))
	return d
}

func stripe(key, body string, at time.Time) webhook.Delivery {
	return call(body, "Stripe-Signature", fmt.Sprintf("t=%d,v1=%s,v0=%s", at.Unix(), sign(key, fmt.Sprintf("%d.%s", at.Unix(), body)), sign("other", body)))
}

func (r *rig) deliver(id string, d webhook.Delivery) *pipeline.Launched {
	r.t.Helper()
	launched, err := r.Deliver(r.t.Context(), id, d)
	if err != nil {
		r.t.Fatalf("delivery: %v", err)
	}
	return launched
}

func (r *rig) refused(id string, d webhook.Delivery, code stepwell.Code) {
	r.t.Helper()
	before := len(r.ledger.launches)
	_, err := r.Deliver(r.t.Context(), id, d)
	if stepwell.CodeOf(err) != code {
		r.t.Fatalf("error %v (%s), want %s", err, stepwell.CodeOf(err), code)
	}
	if len(r.ledger.launches) != before {
		r.t.Fatal("it has started something")
	}
}

// must is for what cannot fail.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
