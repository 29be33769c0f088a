package webhook

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/trigger"
	"github.com/stepwell/stepwell/trigger/shelf"
)

// Jobs are what webhooks may start; a trigger.Schedules is one.
type Jobs interface {
	Job(idOrName string) (*trigger.Schedule, error)
	Trigger(ctx context.Context, idOrName string, r trigger.Run) (*pipeline.Launched, error)
}

// Sealer keeps secrets that have to be used as they are; a secret.Keyring is one. What it seals can be stored, and is
// bound to what it is.
type Sealer interface {
	Seal(value []byte, what string) ([]byte, error)
	Open(sealed []byte, what string) ([]byte, error)
	// Current reports whether what is sealed would be sealed with the same key today.
	Current(sealed []byte) bool
}

// Options configure a Hooks. Objects, Launcher and Jobs are required.
type Options struct {
	Objects  store.Objects
	Launcher trigger.Launcher
	Jobs     Jobs
	// Sealer keeps the secrets of signed webhooks. Defaults to none: then there can be no signed ones.
	Sealer Sealer
	// Hide takes secrets out of texts that are stored. Defaults to there being none.
	Hide func(text string) string
	// MaxBody is the size of the largest body, in bytes. Defaults to 1 MiB.
	MaxBody int
	// Most is how many webhooks there may be. Defaults to 10,000.
	Most int
}

func (o *Options) validate() error {
	if o.Objects == nil || o.Launcher == nil || o.Jobs == nil {
		return &stepwell.Error{Code: stepwell.CodeInternal, Message: "webhook: Objects, Launcher and Jobs are required"}
	}
	if o.MaxBody <= 0 {
		o.MaxBody = 1 << 20
	}
	if o.Most <= 0 {
		o.Most = 10_000
	}
	return nil
}

// Hooks keeps webhooks and takes deliveries. Its methods may be called from many goroutines. No other process may
// change the same webhooks.
type Hooks struct {
	o      Options
	shelf  *shelf.Shelf[record]
	counts *shelf.Counts
}

// New loads all webhooks.
func New(ctx context.Context, o Options) (*Hooks, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	kept, err := openShelf(ctx, o.Objects, o.Most)
	if err != nil {
		return nil, err
	}
	counts, err := shelf.OpenCounts(ctx, o.Objects, "webhook_state", o.Hide)
	if err != nil {
		return nil, err
	}
	return &Hooks{o: o, shelf: kept, counts: counts}, nil
}

func openShelf(ctx context.Context, objects store.Objects, most int) (*shelf.Shelf[record], error) {
	return shelf.Open(ctx, shelf.Options[record]{Objects: objects, Kind: "webhook", Noun: "webhook", Most: most, Name: func(r *record) string { return r.Name }})
}

// Run stores what is counted until ctx ends.
func (h *Hooks) Run(ctx context.Context) error { return h.counts.Run(ctx) }

// MaxBody is the size of the largest body of a delivery, in bytes: no more has to be read.
func (h *Hooks) MaxBody() int { return h.o.MaxBody }

// Create stores a webhook and gives its secret, which cannot be read again. A secret may be given for the signed
// forms, where often the sender makes it; otherwise it is made here. CodeInvalid, CodeConflict when the id is taken,
// CodeNotFound when the job does not exist, CodeLimit when there are too many, CodeUnavailable when a signed form has no
// Sealer.
func (h *Hooks) Create(ctx context.Context, w Webhook, secret, actor string) (*Status, string, error) {
	if w.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, "", err
		}
		w.ID = id.String()
	}
	if err := h.check(&w); err != nil {
		return nil, "", err
	}
	if _, ok := h.shelf.ByID(w.ID); ok {
		return nil, "", &stepwell.Error{Code: stepwell.CodeConflict, Message: "the webhook " + w.ID + " exists already", Hint: "update it, or use another webhook_id"}
	}
	r := record{Webhook: w, By: actor}
	secret, err := h.newSecret(&r, secret, 0, time.Now())
	if err != nil {
		return nil, "", err
	}
	done, err := h.shelf.Put(ctx, w.ID, 0, r)
	if err != nil {
		return nil, "", err
	}
	return h.status(&done), secret, nil
}

func (h *Hooks) check(w *Webhook) error {
	if err := w.check(); err != nil {
		return err
	}
	if w.Job == "" {
		return nil
	}
	job, err := h.o.Jobs.Job(w.Job)
	if err != nil {
		return err
	}
	w.Job = job.ID
	return nil
}

// Update changes a webhook by what edit does to a copy of it; its id and auth stay. Errors as with Create, CodeConflict
// when the revision is another; store.AnyRevision stands for any.
func (h *Hooks) Update(ctx context.Context, idOrName string, revision int64, edit func(*Webhook) error) (*Status, error) {
	it, err := h.shelf.Find(idOrName)
	if err != nil {
		return nil, err
	}
	if revision != store.AnyRevision && revision != it.Revision {
		return nil, changedMeanwhile()
	}
	r, err := h.shelf.Copy(it)
	if err != nil {
		return nil, err
	}
	if err := edit(&r.Webhook); err != nil {
		return nil, err
	}
	if err := h.check(&r.Webhook); err != nil {
		return nil, err
	}
	if r.ID != it.ID || r.Auth != it.Value.Auth {
		return nil, stepwell.Invalid("make a new webhook", "the id and the auth of a webhook cannot change")
	}
	done, err := h.shelf.Put(ctx, it.ID, it.Revision, r)
	if err != nil {
		return nil, err
	}
	return h.status(&done), nil
}

func changedMeanwhile() error {
	return &stepwell.Error{Code: stepwell.CodeConflict, Message: "the webhook has been changed meanwhile", Hint: "read it again and repeat the change"}
}

// maxGrace bounds how long an old secret goes on being accepted.
const maxGrace = 7 * 24 * time.Hour

// Rotate gives a webhook a new secret, made here or given. The old one is accepted for the grace, at most 7 days.
func (h *Hooks) Rotate(ctx context.Context, idOrName, secret string, grace time.Duration) (string, error) {
	if grace < 0 || grace > maxGrace {
		return "", stepwell.Invalid("at most 7 days", "the time for which the old secret is accepted is out of range")
	}
	it, err := h.shelf.Find(idOrName)
	if err != nil {
		return "", err
	}
	if it.Value.Auth == AuthNone {
		return "", stepwell.Invalid("make a new webhook", "the webhook has no secret")
	}
	r, err := h.shelf.Copy(it)
	if err != nil {
		return "", err
	}
	if secret, err = h.newSecret(&r, secret, grace, time.Now()); err != nil {
		return "", err
	}
	_, err = h.shelf.Put(ctx, it.ID, it.Revision, r)
	return secret, err
}

// Webhook finds one by id, or by its name if no other has it.
func (h *Hooks) Webhook(idOrName string) (*Status, error) {
	it, err := h.shelf.Find(idOrName)
	if err != nil {
		return nil, err
	}
	return h.status(&it), nil
}

// Filter selects webhooks, in order of id. Zero fields select all.
type Filter struct {
	Job   string
	After string // id of the last one of the page before
	Limit int    // Defaults to 50, at most 1,000
}

// List lists webhooks.
func (h *Hooks) List(f Filter) []Status {
	list := []Status{}
	for _, it := range h.shelf.Page(f.After, f.Limit, func(it *item) bool { return f.Job == "" || it.Value.Job == f.Job }) {
		list = append(list, *h.status(&it))
	}
	return list
}

// Delete removes a webhook; executions stay.
func (h *Hooks) Delete(ctx context.Context, idOrName string, revision int64) error {
	it, err := h.shelf.Find(idOrName)
	if err != nil {
		return err
	}
	if err := h.shelf.Delete(ctx, it.ID, revision); err != nil {
		return err
	}
	return h.counts.Forget(ctx, it.ID)
}

func (h *Hooks) status(it *item) *Status {
	n := h.counts.Of(it.ID)
	return &Status{Webhook: it.Value.Webhook, Count: n.Runs, LastTriggered: n.Last, LastExecution: n.Execution, LastError: n.Failed, CreatedBy: it.Value.By,
		Revision: it.Revision, Created: it.Created, Updated: it.Updated}
}
