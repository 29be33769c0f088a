package api

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/trigger"
	"github.com/stepwell/stepwell/trigger/webhook"
)

// webhooks are the operations on webhooks (budpipeline §4.3).
func (s *server) webhooks() {
	handle(s, "webhook.create", s.createWebhook)
	handle(s, "webhook.list", s.listWebhooks)
	handle(s, "webhook.validate", s.validateWebhook)
	handle(s, "webhook.get", s.getWebhook)
	handle(s, "webhook.update", s.updateWebhook)
	handle(s, "webhook.delete", s.deleteWebhook)
	handle(s, "webhook.rotate", s.rotateWebhook)
	handle(s, "webhook.trigger", s.triggerWebhook, anyBody("The payload. Its members reach the parameters that the pipeline declares and nobody has set; all of it is params._trigger.payload, and {{ event }} for a single action."))
}

// anyBody describes a body that the operation reads by itself, whatever it is.
func anyBody(about string) func(*huma.Operation) {
	return func(op *huma.Operation) {
		op.SkipValidateBody = true
		op.RequestBody = &huma.RequestBody{Description: about, Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{}}}}
	}
}

// WebhookPolicy says who may call a webhook, and what becomes of a call.
type WebhookPolicy struct {
	Replay       int      `json:"replay_seconds,omitempty" minimum:"0" maximum:"86400" doc:"How old a signed time may be. Defaults to 300."`
	AllowedIPs   []string `json:"allowed_ips,omitempty" nullable:"false" maxItems:"1000" doc:"Addresses and CIDR ranges. Defaults to all."`
	Headers      []string `json:"headers_to_include,omitempty" nullable:"false" maxItems:"50" doc:"Become parameters header_<name>, in lower case with _."`
	Params       Object   `json:"params,omitempty" doc:"Count as the params of what is started; the payload does not replace them."`
	PayloadParam string   `json:"payload_param,omitempty" maxLength:"100" doc:"The parameter that takes the whole payload. Defaults to one for each of its members that the pipeline declares."`
}

// NewWebhook is a webhook to be made.
type NewWebhook struct {
	ID       string    `json:"webhook_id,omitempty" maxLength:"128" doc:"Defaults to a new UUID."`
	Name     string    `json:"name,omitempty" maxLength:"255"`
	About    string    `json:"description,omitempty" maxLength:"4000"`
	Job      string    `json:"job_id,omitempty" maxLength:"255" doc:"The job that it starts, or else callback says what."`
	Callback *Callback `json:"callback,omitempty"`
	Enabled  *bool     `json:"enabled,omitempty" doc:"Defaults to true."`
	Auth     string    `json:"auth,omitempty" enum:"secret,hmac,github,stripe,none" doc:"How callers prove themselves. Defaults to secret; it cannot be changed."`
	Secret   string    `json:"secret,omitempty" maxLength:"1000" writeOnly:"true" doc:"For the signed forms, where the sender may have made it. Defaults to a new one."`
	WebhookPolicy
}

// Webhook is a webhook and what has become of it.
type Webhook struct {
	ID            string    `json:"webhook_id"`
	Name          string    `json:"name"`
	About         string    `json:"description"`
	Job           Ref       `json:"job_id"`
	Callback      *Callback `json:"callback,omitempty"`
	Enabled       bool      `json:"enabled"`
	Auth          string    `json:"auth"`
	URL           string    `json:"path" doc:"Where to call it."`
	Count         int       `json:"trigger_count"`
	Last          Time      `json:"last_triggered_at"`
	LastExecution Ref       `json:"last_execution_id"`
	LastError     Ref       `json:"last_error"`
	CreatedBy     Ref       `json:"created_by"`
	Created       Time      `json:"created_at"`
	Updated       Time      `json:"updated_at"`
	WebhookPolicy
}

// WebhookMade is a new webhook with its secret, which cannot be read again.
type WebhookMade struct {
	Webhook
	Secret string `json:"secret" doc:"Shown once."`
}

func (s *server) webhookOf(w *webhook.Status) Webhook {
	return Webhook{ID: w.ID, Name: w.Name, About: w.Description, Job: Ref(w.Job), Callback: s.callbackOf(w.Callback), Enabled: w.Enabled == nil || *w.Enabled, Auth: w.Auth,
		URL: prefix + "/webhooks/" + w.ID + "/trigger", Count: w.Count, Last: Time{w.LastTriggered}, LastExecution: Ref(w.LastExecution), LastError: Ref(s.text("", w.LastError)),
		CreatedBy: Ref(w.CreatedBy), Created: Time{w.Created}, Updated: Time{w.Updated},
		WebhookPolicy: WebhookPolicy{Replay: w.ReplaySeconds, AllowedIPs: w.AllowedIPs, Headers: w.Headers, Params: s.shownObject(Object(w.Params)), PayloadParam: w.PayloadParam}}
}

type createWebhookInput struct{ Body NewWebhook }

func (s *server) createWebhook(ctx context.Context, in *createWebhookInput) (*made[WebhookMade], error) {
	b := &in.Body
	starts, err := s.callbackIn(ctx, b.Callback, nil)
	if err != nil {
		return nil, err
	}
	params, err := s.written("params", b.Params, nil)
	if err != nil {
		return nil, err
	}
	w := webhook.Webhook{ID: b.ID, Name: b.Name, Description: b.About, Job: b.Job, Callback: starts, Enabled: b.Enabled, Auth: b.Auth, ReplaySeconds: b.Replay,
		AllowedIPs: b.AllowedIPs, Headers: b.Headers, Params: trigger.Values(params), PayloadParam: b.PayloadParam, Role: access.Of(ctx).Role.String(), Author: access.Of(ctx).Actor()}
	got, secret, err := s.o.Webhooks.Create(ctx, w, b.Secret, access.Of(ctx).Actor())
	if err != nil {
		return nil, err
	}
	callOf(ctx).object = got.ID
	return &made[WebhookMade]{Status: statusOf(true), Location: prefix + "/webhooks/" + got.ID, ETag: etag(got.Revision), Body: WebhookMade{s.webhookOf(got), secret}}, nil
}

// WebhookList is a page of webhooks.
type WebhookList struct {
	Webhooks []Webhook `json:"webhooks" nullable:"false"`
	Next     string    `json:"next_cursor,omitempty"`
}

// ListWebhooks selects webhooks.
type ListWebhooks struct {
	Job    string `query:"job_id" maxLength:"128"`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50"`
	Cursor string `query:"cursor" maxLength:"600"`
}

func (s *server) listWebhooks(_ context.Context, in *ListWebhooks) (*answer[WebhookList], error) {
	after, err := cursorOf("webhooks", in.Cursor)
	if err != nil {
		return nil, err
	}
	rows, next := page(s.o.Webhooks.List(webhook.Filter{Job: in.Job, After: after, Limit: in.Limit + 1}), in.Limit, func(w *webhook.Status) string { return w.ID })
	out := WebhookList{Webhooks: make([]Webhook, 0, len(rows)), Next: cursorTo("webhooks", next)}
	for i := range rows {
		out.Webhooks = append(out.Webhooks, s.webhookOf(&rows[i]))
	}
	return reply(out, nil)
}

// WebhookPath is the parameter of operations on one.
type WebhookPath struct {
	ID string `path:"webhook_id" maxLength:"255" doc:"Its id, or its name."`
}

type getWebhookInput struct {
	WebhookPath
	IfNoneMatch string `header:"If-None-Match" maxLength:"2000"`
}

func (s *server) getWebhook(_ context.Context, in *getWebhookInput) (*tagged[Webhook], error) {
	w, err := s.o.Webhooks.Webhook(in.ID)
	if err != nil {
		return nil, err
	}
	if unchanged(in.IfNoneMatch, w.Revision) {
		return nil, notModified(w.Revision)
	}
	return &tagged[Webhook]{etag(w.Revision), s.webhookOf(w)}, nil
}

// WebhookChange is a change of a webhook. What is left out stays as it is.
type WebhookChange struct {
	Name         *string   `json:"name,omitempty" maxLength:"255"`
	About        *string   `json:"description,omitempty" maxLength:"4000"`
	Job          *string   `json:"job_id,omitempty" maxLength:"255" doc:"Takes the place of callback."`
	Callback     *Callback `json:"callback,omitempty" doc:"Takes the place of job_id. What it leaves out stays as it was while it starts the same."`
	Enabled      *bool     `json:"enabled,omitempty"`
	Replay       *int      `json:"replay_seconds,omitempty" minimum:"0" maximum:"86400"`
	AllowedIPs   *[]string `json:"allowed_ips,omitempty" maxItems:"1000"`
	Headers      *[]string `json:"headers_to_include,omitempty" maxItems:"50"`
	Params       Object    `json:"params,omitzero"`
	PayloadParam *string   `json:"payload_param,omitempty" maxLength:"100"`
}

// changeWebhook changes what is given.
func (s *server) changeWebhook(ctx context.Context, w *webhook.Webhook, c *WebhookChange) error {
	starts, err := s.callbackIn(ctx, c.Callback, w.Callback)
	if err != nil {
		return err
	}
	params, err := s.written("params", c.Params, Object(w.Params))
	if err != nil {
		return err
	}
	set(&w.Name, c.Name)
	set(&w.Description, c.About)
	set(&w.ReplaySeconds, c.Replay)
	set(&w.AllowedIPs, c.AllowedIPs)
	set(&w.Headers, c.Headers)
	set(&w.PayloadParam, c.PayloadParam)
	switch {
	case c.Job != nil:
		w.Job, w.Callback = *c.Job, starts
	case c.Callback != nil:
		w.Job, w.Callback = "", starts
	}
	if c.Enabled != nil {
		w.Enabled = c.Enabled
	}
	if c.Params != nil {
		w.Params, w.Role, w.Author = trigger.Values(params), access.Of(ctx).Role.String(), access.Of(ctx).Actor()
	}
	return nil
}

type updateWebhookInput struct {
	WebhookPath
	IfMatch string `header:"If-Match" maxLength:"2000"`
	Body    WebhookChange
}

func (s *server) updateWebhook(ctx context.Context, in *updateWebhookInput) (*tagged[Webhook], error) {
	w, err := s.o.Webhooks.Webhook(in.ID)
	if err != nil {
		return nil, err
	}
	callOf(ctx).object = w.ID
	w, err = change(in.IfMatch, w, func(w *webhook.Status) int64 { return w.Revision }, func(revision int64) (*webhook.Status, error) {
		return s.o.Webhooks.Update(ctx, w.ID, revision, func(w *webhook.Webhook) error { return s.changeWebhook(ctx, w, &in.Body) })
	}, func() (*webhook.Status, error) { return s.o.Webhooks.Webhook(w.ID) })
	if err != nil {
		return nil, err
	}
	return &tagged[Webhook]{etag(w.Revision), s.webhookOf(w)}, nil
}

type deleteWebhookInput struct {
	WebhookPath
	IfMatch string `header:"If-Match" maxLength:"2000"`
}

func (s *server) deleteWebhook(ctx context.Context, in *deleteWebhookInput) (*struct{}, error) {
	w, err := s.o.Webhooks.Webhook(in.ID)
	if err != nil {
		return nil, err
	}
	callOf(ctx).object = w.ID
	return remove(in.IfMatch, w.Revision, func(revision int64) error { return s.o.Webhooks.Delete(ctx, w.ID, revision) })
}

// RotateRequest is the body of a change of secret; it may be left out.
type RotateRequest struct {
	Secret string `json:"secret,omitempty" maxLength:"1000" writeOnly:"true" doc:"For the signed forms. Defaults to a new one."`
	Grace  int    `json:"grace_seconds,omitempty" minimum:"0" maximum:"604800" doc:"For how long the old secret goes on being accepted. Defaults to 0."`
}

// WebhookSecret is a new secret, which cannot be read again.
type WebhookSecret struct {
	ID     string `json:"webhook_id"`
	Secret string `json:"secret" doc:"Shown once."`
}

type rotateInput struct {
	WebhookPath
	Body *RotateRequest
}

func (s *server) rotateWebhook(ctx context.Context, in *rotateInput) (*answer[WebhookSecret], error) {
	w, err := s.o.Webhooks.Webhook(in.ID)
	if err != nil {
		return nil, err
	}
	callOf(ctx).object = w.ID
	var b RotateRequest
	if in.Body != nil {
		b = *in.Body
	}
	secret, err := s.o.Webhooks.Rotate(ctx, w.ID, b.Secret, time.Duration(b.Grace)*time.Second)
	if err != nil {
		return nil, err
	}
	return reply(WebhookSecret{w.ID, secret}, nil)
}

// callWebhookInput is for the description: the webhook reads the headers of its form by itself.
type callWebhookInput struct {
	WebhookPath
	Secret string `header:"X-Webhook-Secret" doc:"The webhook's secret. The signed forms have headers of their own."`
	Event  string `header:"X-Webhook-Id" doc:"Tells a delivery that comes again."`
}

// triggerWebhook takes a call. The webhook itself checks who calls.
func (s *server) triggerWebhook(ctx context.Context, in *callWebhookInput) (*made[Started], error) {
	c := callOf(ctx)
	launched, err := s.o.Webhooks.Deliver(ctx, in.ID, s.delivery(c.request, c.body))
	if code := stepwell.CodeOf(err); code != stepwell.CodeUnauthenticated { // the delivery is genuine
		c.actor = "webhook:" + in.ID
	}
	if launched != nil {
		launched.Ignored = nil // the caller need not know the pipeline
	}
	return s.started(ctx)(launched, err)
}

// WebhookCheck asks whether a secret is that of a webhook.
type WebhookCheck struct {
	ID     string `json:"webhook_id" maxLength:"255"`
	Secret string `json:"secret" maxLength:"1000" writeOnly:"true"`
}

// WebhookChecked says whether it is.
type WebhookChecked struct {
	Valid bool `json:"valid"`
	Job   Ref  `json:"job_id"`
}

type checkWebhookInput struct{ Body WebhookCheck }

func (s *server) validateWebhook(_ context.Context, in *checkWebhookInput) (*answer[WebhookChecked], error) {
	valid, job, err := s.o.Webhooks.Validate(in.Body.ID, in.Body.Secret)
	if stepwell.CodeOf(err) == stepwell.CodeNotFound { // a webhook that does not exist has no secret either
		valid, job, err = false, "", nil
	}
	if err != nil {
		return nil, err
	}
	return reply(WebhookChecked{valid, Ref(job)}, nil)
}
