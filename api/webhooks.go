package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/trigger/webhook"
)

// The shapes of webhooks.
type (
	NewWebhook   = webhook.Draft
	Webhook      = webhook.Status
	WebhookMade  = webhook.Made
	WebhookList  = Page[Webhook]
	ListWebhooks = webhook.Filter
)

// webhooks are the webhooks with their own operations (budpipeline §4.3).
type webhooks struct {
	*kindOf[webhook.Draft, webhook.Webhook, webhook.Made, webhook.Status, webhook.Filter]
	*server
	hooks *webhook.Hooks
}

// Webhooks serves webhooks.
func Webhooks(h *webhook.Hooks) Kind {
	w := &webhooks{hooks: h}
	w.kindOf = &kindOf[webhook.Draft, webhook.Webhook, webhook.Made, webhook.Status, webhook.Filter]{Resource: h}
	w.shown = func(of *webhook.Status) { of.URL = prefix + "/webhooks/" + of.ID + "/trigger" }
	return w
}

func (w *webhooks) serve(s *server) {
	w.server = s
	w.kindOf.serve(s)
	handle(s, "webhook.validate", w.validate)
	handle(s, "webhook.rotate", w.rotate, s.named("webhook_id"))
	handle(s, "webhook.trigger", w.trigger, s.named("webhook_id"), anyBody("The payload. Its members reach the parameters that the pipeline declares and the webhook does not set; all of it is params._trigger.payload, and {{ event }} for a single action."))
	handle(s, "webhook.deliveries", w.deliveries, s.named("webhook_id"))
	handle(s, "webhook.test", w.test, s.named("webhook_id"), anyBody("The payload, as a caller of the webhook would send it."))
	s.most["webhook.test"] = int64(w.hooks.MaxBody())
	s.most["webhook.trigger"] = int64(w.hooks.MaxBody())
	s.admits["webhook.trigger"] = func(r *http.Request) error { return w.hooks.Admit(r.PathValue("webhook_id"), s.delivery(r, nil)) }
}

// anyBody describes a body of any type, which the operation reads itself.
func anyBody(about string) func(*huma.Operation) {
	return func(op *huma.Operation) {
		op.SkipValidateBody = true
		op.RequestBody = &huma.RequestBody{Description: about, Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{}}}}
	}
}

// RotateRequest is the body of a change of secret; it may be left out.
type RotateRequest struct {
	Secret string `json:"secret,omitempty" maxLength:"1000" writeOnly:"true" doc:"For the signed forms. Defaults to a new one."`
	Grace  int    `json:"grace_seconds,omitempty" minimum:"0" maximum:"604800" doc:"For how long the old secret continues being accepted. Defaults to 0."`
}

// WebhookSecret is a new secret, which cannot be read again.
type WebhookSecret struct {
	ID     string `json:"webhook_id"`
	Secret string `json:"secret" doc:"Shown once."`
}

func (w *webhooks) rotate(ctx context.Context, in *bodyInput[*RotateRequest]) (*answer[WebhookSecret], error) {
	_, id, _, err := w.found(ctx)
	if err != nil {
		return nil, err
	}
	callOf(ctx).object = id
	var b RotateRequest
	if in.Body != nil {
		b = *in.Body
	}
	secret, err := w.hooks.Rotate(ctx, id, b.Secret, time.Duration(b.Grace)*time.Second)
	if err != nil {
		return nil, err
	}
	return reply(WebhookSecret{id, secret}, nil)
}

// callWebhookInput is for the description: the webhook reads the headers of its form by itself.
type callWebhookInput struct {
	Secret string `header:"X-Webhook-Secret" doc:"The webhook's secret. The signed forms have headers of their own."`
	Event  string `header:"X-Webhook-Id" doc:"Tells a delivery that comes again."`
}

// trigger serves a call. The webhook itself authenticates the caller.
func (w *webhooks) trigger(ctx context.Context, _ *callWebhookInput) (*made[Started], error) {
	c := callOf(ctx)
	id, err := w.nameIn(ctx, "webhook_id")
	if err != nil {
		return nil, err
	}
	launched, err := w.hooks.Deliver(ctx, id, w.delivery(c.request, c.body))
	if code := stepwell.CodeOf(err); code != stepwell.CodeUnauthenticated { // the delivery is genuine
		c.actor = "webhook:" + id
	}
	if launched != nil {
		launched.Ignored = nil // the caller need not know the pipeline
	}
	return w.started(ctx)(launched, err)
}

// WebhookDelivery is a delivery as it is kept.
type WebhookDelivery = webhook.Received

// WebhookDeliveryList is the last deliveries of a webhook.
type WebhookDeliveryList struct {
	Deliveries []WebhookDelivery `json:"deliveries" nullable:"false" doc:"At most 100, of which at most 50 were refused."`
}

func (w *webhooks) deliveries(ctx context.Context, _ *struct{}) (*answer[WebhookDeliveryList], error) {
	id, err := w.nameIn(ctx, "webhook_id")
	if err != nil {
		return nil, err
	}
	list, err := w.hooks.Received(ctx, id)
	if err != nil {
		return nil, err
	}
	for i := range list {
		list[i].Message = w.text("", list[i].Message)
	}
	return reply(WebhookDeliveryList{list}, nil)
}

// test serves a delivery of somebody who may start executions.
func (w *webhooks) test(ctx context.Context, _ *struct{}) (*made[Started], error) {
	id, err := w.nameIn(ctx, "webhook_id")
	if err != nil {
		return nil, err
	}
	return w.started(ctx)(w.hooks.Fire(ctx, id, "", callOf(ctx).body))
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

func (w *webhooks) validate(_ context.Context, in *bodyInput[WebhookCheck]) (*answer[WebhookChecked], error) {
	valid, job, err := w.hooks.Validate(in.Body.ID, in.Body.Secret)
	if stepwell.CodeOf(err) == stepwell.CodeNotFound { // a webhook that does not exist has no secret either
		valid, job, err = false, "", nil
	}
	if err != nil {
		return nil, err
	}
	return reply(WebhookChecked{valid, Ref(job)}, nil)
}
