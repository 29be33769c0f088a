package webhook

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"time"

	"github.com/stepwell/stepwell"
)

// credential is one accepted secret.
type credential struct {
	Hash    []byte    `json:"hash,omitempty"`   // SHA-256, where that is enough
	Sealed  []byte    `json:"sealed,omitempty"` // where signatures are computed
	Expires time.Time `json:"expires,omitzero"`
}

// Bounds of a secret that is given.
const (
	minSecret = 8
	maxSecret = 512
)

// newSecret gives a webhook a secret; those before are accepted for the grace.
func (h *Hooks) newSecret(r *record, given string, grace time.Duration, now time.Time) (string, error) {
	if r.Auth == AuthNone {
		if given != "" {
			return "", stepwell.Invalid("leave it out, or choose another auth", "a webhook with auth none has no secret")
		}
		return "", nil
	}
	if given == "" {
		raw := make([]byte, 32)
		rand.Read(raw) // never fails
		given = base64.RawURLEncoding.EncodeToString(raw)
	}
	if len(given) < minSecret || len(given) > maxSecret {
		return "", stepwell.Invalid("8 to 512 bytes", "the secret is too short or too long")
	}
	c, err := h.keep(&r.Webhook, given)
	if err != nil {
		return "", err
	}
	kept := []credential{c}
	for _, old := range r.Secrets {
		if grace > 0 && old.valid(now) && len(kept) < 3 {
			if end := now.Add(grace); old.Expires.IsZero() || end.Before(old.Expires) {
				old.Expires = end
			}
			kept = append(kept, old)
		}
	}
	r.Secrets = kept
	return given, nil
}

// keep makes the form in which a secret is stored.
func (h *Hooks) keep(w *Webhook, secret string) (credential, error) {
	if w.Auth == AuthSecret {
		sum := sha256.Sum256([]byte(secret))
		return credential{Hash: sum[:]}, nil
	}
	if h.o.Sealer == nil {
		return credential{}, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "there is no master key to keep the secret of a signed webhook", Hint: "configure one, or use auth: secret"}
	}
	sealed, err := h.o.Sealer.Seal([]byte(secret), sealedAs(w.ID))
	return credential{Sealed: sealed}, err
}

func (c *credential) valid(now time.Time) bool { return c.Expires.IsZero() || now.Before(c.Expires) }

// matches compares a secret that somebody has shown, in a time that does not depend on it.
func (h *Hooks) matches(r *record, shown string, now time.Time) (bool, error) {
	sum := sha256.Sum256([]byte(shown))
	ok := 0
	for _, c := range r.Secrets {
		if !c.valid(now) {
			continue
		}
		hash := c.Hash
		if c.Sealed != nil {
			plain, err := h.open(r.ID, &c)
			if err != nil {
				return false, err
			}
			own := sha256.Sum256(plain)
			hash = own[:]
		}
		ok |= subtle.ConstantTimeCompare(hash, sum[:])
	}
	return ok == 1, nil
}

// open gives a sealed secret back.
func (h *Hooks) open(id string, c *credential) ([]byte, error) {
	if h.o.Sealer == nil {
		return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "there is no master key to open the webhook's secret", Hint: "configure the one that it was made with"}
	}
	plain, err := h.o.Sealer.Open(c.Sealed, sealedAs(id))
	if err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the webhook's secret cannot be opened", Hint: "configure the master key that it was made with, or rotate the secret", Err: err}
	}
	return plain, nil
}

// sealedAs binds a secret to its webhook.
func sealedAs(id string) string { return "webhook/" + id }
