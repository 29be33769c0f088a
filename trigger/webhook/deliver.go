package webhook

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/pipeline"
)

// Delivery is one call of a webhook.
type Delivery struct {
	Header http.Header
	Body   []byte     // as it came: signatures are over its bytes
	From   netip.Addr // the caller's address; a forwarded one only if the proxy is trusted
	// Elsewhere says why a web page elsewhere may have made a browser send it: a webhook without a secret refuses it
	// then. Defaults to nil, there is no sign of that.
	Elsewhere error

	id string // of a caller that is believed: it needs no other
}

// Admit says whether a delivery may be taken, from all that is known before its body has come: errors as with Deliver.
func (h *Hooks) Admit(id string, d Delivery) error {
	now := h.o.Now()
	_, err := h.admit(id, &d, now)
	if err != nil && stepwell.CodeOf(err) != stepwell.CodeNotFound {
		h.received.take(id, &d, now, nil, err)
	}
	return err
}

func (h *Hooks) admit(id string, d *Delivery, now time.Time) (*record, error) {
	it, ok := h.set.ByID(id)
	if !ok {
		return nil, &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf("there is no webhook %q", stepwell.Clip(id, 80))}
	}
	r := &it.Value
	switch {
	case !r.admits(d.From):
		return nil, &stepwell.Error{Code: stepwell.CodeForbidden, Message: "the webhook does not take calls from this address"}
	case r.Auth == AuthNone && d.Elsewhere != nil:
		return nil, d.Elsewhere
	case !r.On():
		return nil, &stepwell.Error{Code: stepwell.CodeForbidden, Message: "the webhook is disabled"}
	}
	return r, h.shows(r, d.Header, now)
}

// Deliver starts the target of the webhook with this id. A repeated delivery returns the execution that it started,
// with Fresh false. Errors as the package's comment says, and those of pipeline's Launch; CodeInvalid when the body is
// not JSON, CodeConflict when a delivery's id comes again with another body.
func (h *Hooks) Deliver(ctx context.Context, id string, d Delivery) (*pipeline.Launched, error) {
	now := h.o.Now()
	launched, err := h.deliver(ctx, id, d, now)
	if stepwell.CodeOf(err) != stepwell.CodeNotFound {
		h.received.take(id, &d, now, launched, err)
	}
	return launched, err
}

func (h *Hooks) deliver(ctx context.Context, id string, d Delivery, now time.Time) (*pipeline.Launched, error) {
	r, err := h.admit(id, &d, now)
	if err != nil {
		return nil, err
	}
	if len(d.Body) > h.o.MaxBody {
		return nil, &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("the body is larger than %d bytes", h.o.MaxBody)}
	}
	proven, err := h.verify(r, &d, now)
	if err != nil {
		return nil, err
	}
	return h.launchCounted(ctx, r, &d, proven, now)
}

// Fire starts the target of a webhook, by its id or name, for a caller that needs no proof. A repeated id returns the execution that it started, with
// Fresh false. CodeNotFound; CodeForbidden: the webhook is disabled; errors of pipeline's Launch.
func (h *Hooks) Fire(ctx context.Context, idOrName, id string, body []byte) (*pipeline.Launched, error) {
	it, err := h.set.Find(idOrName)
	if err != nil {
		return nil, err
	}
	if !it.Value.On() {
		return nil, &stepwell.Error{Code: stepwell.CodeForbidden, Message: "the webhook is disabled"}
	}
	d, now := &Delivery{Header: http.Header{"Content-Type": {"application/json"}}, Body: body, id: id}, h.o.Now()
	launched, err := h.launchCounted(ctx, &it.Value, d, proof{}, now)
	h.received.take(it.ID, d, now, launched, err)
	return launched, err
}

func (h *Hooks) launchCounted(ctx context.Context, r *record, d *Delivery, proven proof, now time.Time) (*pipeline.Launched, error) {
	launched, err := h.launch(ctx, r, d, proven, now)
	if err != nil || launched.Fresh {
		execution := ""
		if launched != nil {
			execution = launched.Execution
		}
		h.counts.Ran(r.ID, execution, err)
	}
	return launched, err
}

// launch starts the target for a genuine delivery.
func (h *Hooks) launch(ctx context.Context, r *record, d *Delivery, proven proof, now time.Time) (*pipeline.Launched, error) {
	body, err := decode(d.Body, d.Header.Get("Content-Type"))
	if err != nil {
		return nil, err
	}
	delivery, err := deliveryID(r.Auth, d.Header, body, proven)
	if err != nil {
		return nil, err
	}
	about := map[string]any{"type": "webhook", "webhook_id": r.ID, "webhook_name": r.Name, "triggered_at": now.UTC().Format("2006-01-02T15:04:05.000Z07:00")}
	key, hash := "", []byte(nil)
	if d.id != "" {
		key = d.id
	} else if delivery != "" {
		about["delivery_id"] = delivery
		key = "webhook:" + r.ID + ":" + delivery
	}
	if d.id == "" && (r.Auth == AuthSecret || r.Auth == AuthHMAC) { // others may send an event again with another body
		sum := sha256.Sum256(d.Body)
		hash = sum[:]
	}
	payload := r.payload(body)
	headers := r.headers(d.Header)
	about["payload"] = payload
	in := pipeline.Launch{Written: r.Params, Role: r.Role, Outside: &pipeline.Outside{Values: r.values(body, payload), Added: headers, Event: payload, About: about}}
	in.Trigger, in.Job, in.Actor, in.Key, in.KeyHash = "webhook", r.ID, "webhook:"+r.ID, key, hash
	if r.Job != "" || len(r.Params) > 0 {
		in = in.WrittenBy(cmp.Or(r.Author, r.By))
	}
	return r.Start(ctx, in, h.o.Jobs, h.o.Launcher)
}

// deliveryID identifies a delivery, "" when nothing does. Where the time is signed but the id is not, the signature
// identifies it: a replay could carry another id.
func deliveryID(auth string, header http.Header, body any, proven proof) (string, error) {
	id := ""
	switch auth {
	case AuthHMAC:
		id = proven.signedID
	case AuthStripe:
		if event, ok := body.(map[string]any); ok {
			id, _ = event["id"].(string)
		}
	case AuthGitHub:
		id = header.Get(headerGitHubID)
	default:
		if id = header.Get(HeaderID); id == "" {
			id = header.Get(headerIdem)
		}
	}
	if len(id) > 200 || strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", stepwell.Invalid("at most 200 printable ASCII characters", "the id of the delivery is too long or has characters that it must not have")
	}
	if id == "" && proven.signature != "" {
		raw := sha256.Sum256([]byte(proven.signature))
		id = "signature-" + hex.EncodeToString(raw[:16])
	}
	return id, nil
}

// Validate reports whether a secret is that of a webhook (budpipeline §4.3), and which job it starts: its own id when
// it names none. CodeNotFound.
func (h *Hooks) Validate(id, secret string) (valid bool, job string, err error) {
	it, ok := h.set.ByID(id)
	if !ok {
		return false, "", &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf("there is no webhook %q", stepwell.Clip(id, 80))}
	}
	valid, err = h.matches(&it.Value, secret, h.o.Now())
	if err != nil || !valid {
		return false, "", err
	}
	return true, cmp.Or(string(it.Value.Job), it.ID), nil
}
