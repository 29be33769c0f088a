// Package webhook starts executions when somebody calls: it knows who may, whether a call is genuine, and whether it
// has come before (budpipeline §4.3, docs/semantics §4).
//
// A caller proves itself with a secret in a header, or with an HMAC-SHA256 of the body in the header form of this
// package, of GitHub or of Stripe. Secrets are shown once; what is stored is a hash where that is enough, and otherwise
// the sealed secret. Comparisons take constant time. A delivery that comes again finds the execution that it started.
// Errors are coded: CodeNotFound for an unknown webhook, CodeForbidden for one that is disabled and for addresses that are
// not allowed, CodeUnauthenticated for a wrong secret or signature, CodeLimit for a body that is too large. Nothing of a
// secret ever appears in them. Stability: experimental until version 1.
package webhook

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/trigger"
)

// The ways in which callers prove themselves.
const (
	AuthSecret = "secret" // X-Webhook-Secret holds the secret
	AuthHMAC   = "hmac"   // X-Webhook-Signature: sha256=…, over "<X-Webhook-Timestamp>.<body>", see docs/triggers.md
	AuthGitHub = "github" // X-Hub-Signature-256, over the body
	AuthStripe = "stripe" // Stripe-Signature: t=…,v1=…, over "<t>.<body>"
	AuthNone   = "none"   // only with allowed_ips
)

// Webhook is the user-written part of a webhook.
type Webhook struct {
	ID string `json:"webhook_id" required:"false" shown:"always" change:"never" maxLength:"128" doc:"Defaults to a new UUID."`
	trigger.Head
	Auth string `json:"auth,omitempty" shown:"always" change:"never" enum:"secret,hmac,github,stripe,none" doc:"How callers prove themselves. Defaults to secret; it cannot be changed."`
	// ReplaySeconds is also how far in the future a signed time may be.
	ReplaySeconds    int             `json:"replay_seconds,omitempty" minimum:"0" maximum:"86400" doc:"How old a signed time may be. Defaults to 300."`
	AllowedIPs       []string        `json:"allowed_ips,omitempty" nullable:"false" maxItems:"1000" doc:"Addresses and CIDR ranges. Defaults to all."`
	Headers          []string        `json:"headers_to_include,omitempty" nullable:"false" maxItems:"50" doc:"Become parameters header_<name>, in lower case with _."`
	Params           resource.Object `json:"params,omitempty" doc:"Count as the params of what is started; the payload does not replace them."`
	PayloadParam     string          `json:"payload_param,omitempty" maxLength:"100" doc:"The parameter that takes the whole payload. Defaults to one for each of its members that the pipeline declares."`
	trigger.Authored                 // of Params. Defaults to the creator of the webhook
}

// Texts are the free texts: they must not hold secrets.
func (w *Webhook) Texts() map[string]*resource.Object {
	return map[string]*resource.Object{"params": &w.Params}
}

// Sign records the author of Params.
func (w *Webhook) Sign(by trigger.Authored) { w.Authored = by }

// Draft is a webhook to be created.
type Draft struct {
	Webhook
	Secret string `json:"secret,omitempty" maxLength:"1000" writeOnly:"true" doc:"For the signed forms, where the sender may have made it. Defaults to a new one."`
}

// Status is a webhook and its last outcomes.
type Status struct {
	Webhook
	URL string `json:"path" doc:"Where to call it."`
	trigger.Counted
}

// Identity is the id.
func (s *Status) Identity() string { return s.ID }

// Made is a new webhook with its secret, which cannot be read again.
type Made struct {
	Status
	Secret string `json:"secret" doc:"Shown once."`
}

// Shown is the part that is shown later too.
func (m *Made) Shown() *Status { return &m.Status }

// record is a stored webhook.
type record struct {
	Webhook
	By      string       `json:"created_by,omitempty"`
	Secrets []credential `json:"secrets"`
}

// secretHeaders never become parameters.
var secretHeaders = []string{"authorization", "cookie", "proxy-authorization", "x-webhook-secret", "x-webhook-signature", "x-hub-signature", "x-hub-signature-256", "stripe-signature"}

// check completes a webhook and validates it.
func (w *Webhook) check(jobs trigger.Jobs) error {
	if err := trigger.CheckID("webhook_id", w.ID); err != nil {
		return err
	}
	if err := resource.Check(w); err != nil {
		return err
	}
	if err := w.Head.Check("webhook", w.Params, jobs); err != nil {
		return err
	}
	w.Auth, w.ReplaySeconds = cmp.Or(w.Auth, AuthSecret), cmp.Or(w.ReplaySeconds, 300)
	if w.Auth == AuthNone && len(w.AllowedIPs) == 0 {
		return stepwell.Invalid("list the callers in allowed_ips, or choose another auth", "a webhook without a secret would be open to everyone")
	}
	return w.checkCallers()
}

func (w *Webhook) checkCallers() error {
	for _, text := range w.AllowedIPs {
		if _, err := parsePrefix(text); err != nil {
			return stepwell.Invalid("such as 192.0.2.7, 192.0.2.0/24 or 2001:db8::/32", "allowed_ips: %q is not an address or range", stepwell.Clip(text, 80))
		}
	}
	for _, name := range w.Headers {
		if name == "" || len(name) > 100 || http.CanonicalHeaderKey(name) == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == ':' }) {
			return stepwell.Invalid("such as X-Request-Id", "headers_to_include: %q is not a name of a header", stepwell.Clip(name, 80))
		}
		if slices.Contains(secretHeaders, strings.ToLower(name)) {
			return stepwell.Invalid("leave it out", "headers_to_include: %s holds a secret", name)
		}
	}
	if strings.HasPrefix(w.PayloadParam, "_") {
		return stepwell.Invalid("such as payload", "payload_param cannot be the name of a parameter")
	}
	return nil
}

// parsePrefix reads an address or a range.
func parsePrefix(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		addr = addr.Unmap().WithZone("")
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err == nil && p.Addr().Is4In6() {
		err = fmt.Errorf("a mapped range")
		if p.Bits() >= 96 {
			p, err = p.Addr().Unmap().Prefix(p.Bits() - 96)
		}
	}
	return p, err
}

// admits reports whether the address may call.
func (w *Webhook) admits(from netip.Addr) bool {
	if len(w.AllowedIPs) == 0 {
		return true
	}
	from = from.Unmap().WithZone("")
	return slices.ContainsFunc(w.AllowedIPs, func(text string) bool {
		p, err := parsePrefix(text)
		return err == nil && p.Contains(from)
	})
}
