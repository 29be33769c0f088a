package webhook

import (
	"cmp"
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/trigger"
)

// Sealer encrypts secrets that are needed in plain; implemented by secret.Keyring. Sealed values can be stored, and
// open only under the same label.
type Sealer interface {
	Seal(value []byte, what string) ([]byte, error)
	Open(sealed []byte, what string) ([]byte, error)
	// Current reports whether a value is sealed with the current key.
	Current(sealed []byte) bool
}

// Options configure a Hooks. Objects, Launcher and Jobs are required.
type Options struct {
	Objects  store.Objects
	Launcher trigger.Launcher
	Jobs     trigger.Jobs
	// Sealer keeps the secrets of signed webhooks. Defaults to none: then there can be no signed ones.
	Sealer Sealer
	// Hide takes secrets out of texts that are stored. Defaults to there being none.
	Hide func(text string) string
	// MaxBody is the size of the largest body, in bytes. Defaults to 1 MiB.
	MaxBody int
	// Most is how many webhooks there may be. Defaults to 10,000.
	Most int
	// Now is the clock of all times that are recorded or decide. Defaults to time.Now.
	Now func() time.Time
}

func (o *Options) validate() error {
	if o.Objects == nil || o.Launcher == nil || o.Jobs == nil {
		return &stepwell.Error{Code: stepwell.CodeInternal, Message: "webhook: Objects, Launcher and Jobs are required"}
	}
	o.MaxBody = cmp.Or(max(o.MaxBody, 0), 1<<20)
	o.Most = cmp.Or(max(o.Most, 0), 10_000)
	if o.Now == nil {
		o.Now = time.Now
	}
	return nil
}

// Hooks keeps webhooks and takes deliveries. Its methods may be called from many goroutines.
type Hooks struct {
	o        Options
	set      *resource.Set[record]
	counts   *resource.Counts
	received *deliveries
}

// New loads all webhooks.
func New(ctx context.Context, o Options) (*Hooks, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	set, err := openSet(ctx, o.Objects, o.Most)
	if err != nil {
		return nil, err
	}
	counts, err := resource.OpenCounts(ctx, o.Objects, "webhook_state", o.Hide)
	if err != nil {
		return nil, err
	}
	return &Hooks{o: o, set: set, counts: counts, received: newDeliveries(o.Objects, o.Hide)}, nil
}

var kind = resource.Kind{Name: "webhook", Noun: "webhook", Path: "webhooks", Param: "webhook_id", List: "webhooks"}

func openSet(ctx context.Context, objects store.Objects, most int) (*resource.Set[record], error) {
	return resource.Open(ctx, resource.Options[record]{Kind: kind, Objects: objects, Most: most, Label: func(r *record) string { return r.Name }})
}

// Kind names the kind.
func (h *Hooks) Kind() resource.Kind { return kind }

// Refresh rereads the changes of another process.
func (h *Hooks) Refresh(ctx context.Context, changed []store.Object) error {
	return h.set.Refresh(ctx, changed)
}

// Run stores the counts and the last deliveries until ctx ends.
func (h *Hooks) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return h.counts.Run(ctx) })
	g.Go(func() error { return h.received.run(ctx) })
	return g.Wait()
}

// MaxBody is the size of the largest body of a delivery, in bytes: no more has to be read.
func (h *Hooks) MaxBody() int { return h.o.MaxBody }

// Create stores a webhook and gives its secret, which cannot be read again. A secret may be given for the signed
// forms, where often the sender makes it; otherwise it is made here. CodeInvalid, CodeConflict when the id is taken,
// CodeNotFound when the job does not exist, CodeLimit when there are too many, CodeUnavailable when a signed form has no
// Sealer.
func (h *Hooks) Create(ctx context.Context, w *Draft, actor string) (made *Made, err error) {
	r := record{Webhook: w.Webhook, By: actor}
	if r.ID, err = resource.NewID(r.ID); err != nil {
		return nil, err
	}
	if err := r.check(h.o.Jobs); err != nil {
		return nil, err
	}
	secret, err := h.newSecret(&r, w.Secret, 0, h.o.Now())
	if err != nil {
		return nil, err
	}
	item, err := h.set.Create(ctx, r.ID, r)
	if err != nil {
		return nil, err
	}
	return &Made{*h.status(&item), secret}, nil
}

// Update applies edit to a copy of a webhook; its id and auth stay. Errors as with Create, CodeConflict for another
// revision; store.AnyRevision accepts any.
func (h *Hooks) Update(ctx context.Context, idOrName string, revision int64, edit func(*Webhook) error) (*Status, error) {
	item, err := h.set.Update(ctx, idOrName, revision, func(r *record) error {
		id, auth := r.ID, r.Auth
		if err := edit(&r.Webhook); err != nil {
			return err
		}
		if r.ID != id || r.Auth != auth {
			return stepwell.Invalid("make a new webhook", "the id and the auth of a webhook cannot change")
		}
		return r.check(h.o.Jobs)
	})
	if err != nil {
		return nil, err
	}
	return h.status(&item), nil
}

// maxGrace bounds how long an old secret goes on being accepted.
const maxGrace = 7 * 24 * time.Hour

// Rotate gives a webhook a new secret, made here or given. The old one is accepted for the grace, at most 7 days.
func (h *Hooks) Rotate(ctx context.Context, idOrName, secret string, grace time.Duration) (string, error) {
	if grace < 0 || grace > maxGrace {
		return "", stepwell.Invalid("at most 7 days", "the time for which the old secret is accepted is out of range")
	}
	_, err := h.set.Update(ctx, idOrName, store.AnyRevision, func(r *record) (err error) {
		if r.Auth == AuthNone {
			return stepwell.Invalid("make a new webhook", "the webhook has no secret")
		}
		secret, err = h.newSecret(r, secret, grace, h.o.Now())
		return err
	})
	return secret, err
}

// Get finds one by id, or by its name if no other has it.
func (h *Hooks) Get(_ context.Context, idOrName string) (*Status, error) {
	item, err := h.set.Find(idOrName)
	if err != nil {
		return nil, err
	}
	return h.status(&item), nil
}

// Filter selects webhooks, in order of id. Zero fields select all.
type Filter struct {
	Job string `query:"job_id" maxLength:"128"`
	resource.Page
}

// List lists webhooks.
func (h *Hooks) List(_ context.Context, f *Filter) ([]Status, error) {
	list := []Status{}
	for _, item := range h.set.List(f.Cursor, f.Limit, func(i *resource.Item[record]) bool { return f.Job == "" || string(i.Value.Job) == f.Job }) {
		list = append(list, *h.status(&item))
	}
	return list, nil
}

// Delete removes a webhook; executions stay.
func (h *Hooks) Delete(ctx context.Context, idOrName string, revision int64) error {
	id, err := h.set.Delete(ctx, idOrName, revision)
	if err != nil {
		return err
	}
	return errors.Join(h.counts.Forget(ctx, id), h.received.forget(ctx, id))
}

func (h *Hooks) status(i *resource.Item[record]) *Status {
	return &Status{Webhook: i.Value.Webhook, Counted: trigger.CountedOf(h.counts.Of(i.ID), i.Value.By, i.Meta)}
}
