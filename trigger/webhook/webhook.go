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
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/trigger"
	"github.com/stepwell/stepwell/trigger/shelf"
)

// The ways in which callers prove themselves.
const (
	AuthSecret = "secret" // X-Webhook-Secret holds the secret
	AuthHMAC   = "hmac"   // X-Webhook-Signature: sha256=…, over "<X-Webhook-Timestamp>.<body>", see docs/triggers.md
	AuthGitHub = "github" // X-Hub-Signature-256, over the body
	AuthStripe = "stripe" // Stripe-Signature: t=…,v1=…, over "<t>.<body>"
	AuthNone   = "none"   // only with allowed_ips
)

// Webhook is what people write.
type Webhook struct {
	ID          string `json:"webhook_id"` // Defaults to a new UUID
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`
	// Job is the job that it starts, or else Callback says what.
	Job      string            `json:"job_id,omitempty"`
	Callback *trigger.Callback `json:"callback,omitempty"`
	Enabled  *bool             `json:"enabled,omitempty"` // Defaults to true
	Auth     string            `json:"auth,omitempty"`    // Defaults to secret; it cannot be changed
	// ReplaySeconds is how old a signed time may be, and how far in the future. Defaults to 300, at most a day.
	ReplaySeconds int            `json:"replay_seconds,omitempty"`
	AllowedIPs    []string       `json:"allowed_ips,omitempty"`        // addresses and CIDR ranges. Defaults to all
	Headers       []string       `json:"headers_to_include,omitempty"` // become parameters header_<name>, in lower case with _
	Params        trigger.Values `json:"params,omitempty"`             // count as the params of what is started
	// Role is that of whoever wrote Params, when they did.
	Role         string `json:"author_role,omitempty"`
	Author       string `json:"author,omitempty"`        // who wrote Params last. Defaults to who created the webhook
	PayloadParam string `json:"payload_param,omitempty"` // the parameter that takes the whole payload. Defaults to those of its members that are declared
}

// Status is a webhook and what has become of it.
type Status struct {
	Webhook
	Count         int       `json:"trigger_count"`
	LastTriggered time.Time `json:"last_triggered_at,omitzero"`
	LastExecution string    `json:"last_execution_id,omitempty"`
	LastError     string    `json:"last_error,omitempty"` // why the latest genuine delivery started nothing
	CreatedBy     string    `json:"created_by,omitempty"`
	Revision      int64     `json:"-"` // for the ETag
	Created       time.Time `json:"created_at"`
	Updated       time.Time `json:"updated_at"`
}

// record is what is stored.
type record struct {
	Webhook
	By      string       `json:"created_by,omitempty"`
	Secrets []credential `json:"secrets"`
}

type item = shelf.Item[record]

// Bounds of what a webhook may say.
const (
	maxReplay  = 86_400
	maxIPs     = 1000
	maxHeaders = 50
)

// secretHeaders never become parameters.
var secretHeaders = []string{"authorization", "cookie", "proxy-authorization", "x-webhook-secret", "x-webhook-signature", "x-hub-signature", "x-hub-signature-256", "stripe-signature"}

func (w *Webhook) enabled() bool { return w.Enabled == nil || *w.Enabled }

// check completes a webhook and reports what is wrong with it.
func (w *Webhook) check() error {
	if !trigger.ValidID(w.ID) {
		return stepwell.Invalid("1 to 128 letters, digits and . _ : -, beginning with a letter or digit", "webhook_id cannot be an id")
	}
	if err := trigger.CheckText(w.Name, w.Description, w.Params); err != nil {
		return err
	}
	if (w.Job == "") == (w.Callback == nil) {
		return stepwell.Invalid("give either job_id or callback", "the webhook does not say what to start")
	}
	if w.Callback != nil {
		if err := w.Callback.Check(); err != nil {
			return err
		}
		if err := trigger.CheckText("", "", w.Callback.Params); err != nil {
			return err
		}
	}
	if w.Auth == "" {
		w.Auth = AuthSecret
	}
	if !slices.Contains([]string{AuthSecret, AuthHMAC, AuthGitHub, AuthStripe, AuthNone}, w.Auth) {
		return stepwell.Invalid("one of secret, hmac, github, stripe and none", "auth is not known")
	}
	if w.Auth == AuthNone && len(w.AllowedIPs) == 0 {
		return stepwell.Invalid("list the callers in allowed_ips, or choose another auth", "a webhook without a secret would be open to everyone")
	}
	if w.ReplaySeconds == 0 {
		w.ReplaySeconds = 300
	}
	if w.ReplaySeconds < 1 || w.ReplaySeconds > maxReplay {
		return stepwell.Invalid("1 to 86,400", "replay_seconds is out of range")
	}
	enabled := w.enabled()
	w.Enabled = &enabled
	return w.checkCallers()
}

func (w *Webhook) checkCallers() error {
	if len(w.AllowedIPs) > maxIPs || len(w.Headers) > maxHeaders {
		return stepwell.Invalid("at most 1,000 addresses and 50 headers", "there are too many allowed_ips or headers_to_include")
	}
	for _, text := range w.AllowedIPs {
		if _, err := parsePrefix(text); err != nil {
			return stepwell.Invalid("such as 192.0.2.7, 192.0.2.0/24 or 2001:db8::/32", "allowed_ips: %q is no address or range", stepwell.Clip(text, 80))
		}
	}
	for _, name := range w.Headers {
		if name == "" || len(name) > 100 || http.CanonicalHeaderKey(name) == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == ':' }) {
			return stepwell.Invalid("such as X-Request-Id", "headers_to_include: %q is no name of a header", stepwell.Clip(name, 80))
		}
		if slices.Contains(secretHeaders, strings.ToLower(name)) {
			return stepwell.Invalid("leave it out", "headers_to_include: %s holds a secret", name)
		}
	}
	if w.PayloadParam != "" && (len(w.PayloadParam) > 100 || strings.HasPrefix(w.PayloadParam, "_")) {
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
