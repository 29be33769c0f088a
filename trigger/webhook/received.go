package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// Of the deliveries of a webhook the last ones are kept, and of these only some that were refused, so that strangers cannot push out
// the others.
const (
	maxReceived = 100
	maxRefused  = 50
)

// The verdicts on deliveries.
const (
	verdictStarted  = "started"
	verdictRepeated = "repeated"
	verdictRefused  = "refused"
	verdictInvalid  = "invalid"
	verdictFailed   = "failed"
)

// Received is a delivery as it is kept: without its body.
type Received struct {
	At        resource.Time `json:"received_at"`
	Verdict   string        `json:"verdict" enum:"started,repeated,refused,invalid,failed" doc:"repeated: it has come before, and started nothing again. refused: by its address, its proof, or because the webhook is disabled. invalid: its body or id. failed: what it starts could not be started."`
	From      string        `json:"from,omitempty" doc:"The address that it came from; missing for a test."`
	Bytes     int           `json:"bytes,omitempty" doc:"The size of its body, if it was read."`
	Test      bool          `json:"test,omitempty" doc:"It was a test, or came over a broker, and needed no proof."`
	Execution resource.Ref  `json:"execution_id" doc:"What it started, or had started."`
	Code      stepwell.Code `json:"code,omitempty" doc:"Why it started nothing."`
	Message   string        `json:"message,omitempty"`
}

// deliveries keeps what was received, an object for each webhook. It is stored a second later at most; several processes may
// receive for the same webhook.
type deliveries struct {
	objects store.Objects
	hide    func(string) string
	gather  resource.Gather

	storing sync.Mutex // held while something is neither in new nor stored
	mu      sync.Mutex
	new     map[string][]Received // not stored yet, by webhook
}

const deliveriesKind = "webhook_deliveries"

func newDeliveries(objects store.Objects, hide func(string) string) *deliveries {
	if hide == nil {
		hide = func(text string) string { return text }
	}
	return &deliveries{objects: objects, hide: hide, gather: resource.NewGather(), new: map[string][]Received{}}
}

// take keeps the outcome of a delivery.
func (k *deliveries) take(id string, d *Delivery, now time.Time, launched *pipeline.Launched, err error) {
	r := Received{At: resource.At(now.UTC().Truncate(time.Millisecond)), Bytes: len(d.Body), Test: d.From == (netip.Addr{})}
	if !r.Test {
		r.From = d.From.Unmap().String()
	}
	switch code := stepwell.CodeOf(err); {
	case err == nil && launched.Fresh:
		r.Verdict = verdictStarted
	case err == nil:
		r.Verdict = verdictRepeated
	case code == stepwell.CodeUnauthenticated || code == stepwell.CodeForbidden:
		r.Verdict = verdictRefused
	case code == stepwell.CodeInvalid || code == stepwell.CodeConflict:
		r.Verdict = verdictInvalid
	default:
		r.Verdict = verdictFailed
	}
	if launched != nil {
		r.Execution = resource.Ref(launched.Execution)
	}
	if err != nil {
		r.Code, r.Message = stepwell.CodeOf(err), stepwell.Clip(k.hide(err.Error()), 300)
	}
	k.mu.Lock()
	list := append(k.new[id], r)
	if len(list) > 2*maxReceived { // not on each of thousands a second
		list = bounded(list)
	}
	k.new[id] = list
	k.mu.Unlock()
	k.gather.Changed()
}

// bounded orders deliveries by time, which several processes have stored, and drops the oldest of too many.
func bounded(list []Received) []Received {
	slices.SortStableFunc(list, func(a, b Received) int { return a.At.Compare(b.At.Time) })
	refused := 0
	for i := range list {
		if list[i].Verdict == verdictRefused {
			refused++
		}
	}
	list = slices.DeleteFunc(list, func(r Received) bool {
		if r.Verdict != verdictRefused || refused <= maxRefused {
			return false
		}
		refused--
		return true
	})
	return append([]Received{}, list[max(0, len(list)-maxReceived):]...)
}

// stored reads what is stored of a webhook, and its revision: 0 for nothing.
func (k *deliveries) stored(ctx context.Context, id string) (list []Received, revision int64, err error) {
	o, err := k.objects.Object(ctx, deliveriesKind, id)
	switch {
	case stepwell.CodeOf(err) == stepwell.CodeNotFound:
		return nil, 0, nil
	case err != nil:
		return nil, 0, err
	}
	if err := json.Unmarshal(o.Body, &list); err != nil {
		return nil, 0, &stepwell.Error{Code: stepwell.CodeInternal, Message: "the stored deliveries of webhook " + id + " cannot be read", Err: err}
	}
	return list, o.Revision, nil
}

// list is what was received by a webhook, the newest first.
func (k *deliveries) list(ctx context.Context, id string) ([]Received, error) {
	k.storing.Lock()
	defer k.storing.Unlock()
	list, _, err := k.stored(ctx, id)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	list = bounded(append(list, k.new[id]...))
	k.mu.Unlock()
	slices.Reverse(list)
	return list, nil
}

// run stores what is new until ctx ends, the last ones included.
func (k *deliveries) run(ctx context.Context) error { return k.gather.Run(ctx, k.flush) }

func (k *deliveries) flush(ctx context.Context) error {
	k.mu.Lock()
	ids := make([]string, 0, len(k.new))
	for id := range k.new {
		ids = append(ids, id)
	}
	k.mu.Unlock()
	var failed error
	for _, id := range ids {
		failed = errors.Join(failed, k.store(ctx, id))
	}
	return failed
}

func (k *deliveries) store(ctx context.Context, id string) error {
	k.storing.Lock()
	defer k.storing.Unlock()
	k.mu.Lock()
	fresh := k.new[id]
	delete(k.new, id)
	k.mu.Unlock()
	if len(fresh) == 0 {
		return nil // the webhook was deleted meanwhile
	}
	err := k.add(ctx, id, fresh)
	if err != nil {
		k.mu.Lock()
		k.new[id] = bounded(append(fresh, k.new[id]...))
		k.mu.Unlock()
	}
	return err
}

// add stores what is new behind what is stored.
func (k *deliveries) add(ctx context.Context, id string, fresh []Received) error {
	list, revision, err := k.stored(ctx, id)
	if err != nil {
		return err
	}
	body, err := json.Marshal(bounded(append(list, fresh...)))
	if err == nil {
		_, err = k.objects.PutObjects(ctx, store.Object{Kind: deliveriesKind, ID: id, Revision: revision, Body: body})
	}
	return err
}

// forget removes what was received by a webhook that is deleted.
func (k *deliveries) forget(ctx context.Context, id string) error {
	k.storing.Lock()
	defer k.storing.Unlock()
	k.mu.Lock()
	delete(k.new, id)
	k.mu.Unlock()
	if err := k.objects.DeleteObject(ctx, deliveriesKind, id, store.AnyRevision); stepwell.CodeOf(err) != stepwell.CodeNotFound {
		return err
	}
	return nil
}

// Received lists the last deliveries of a webhook, by its id or name, the newest first: at most 100, of which at most 50 refused.
func (h *Hooks) Received(ctx context.Context, idOrName string) ([]Received, error) {
	it, err := h.set.Find(idOrName)
	if err != nil {
		return nil, err
	}
	return h.received.list(ctx, it.ID)
}
