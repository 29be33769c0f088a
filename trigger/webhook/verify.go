package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
)

// The headers of a delivery.
const (
	HeaderSecret    = "X-Webhook-Secret"
	HeaderSignature = "X-Webhook-Signature" // sha256=<hex>
	HeaderTimestamp = "X-Webhook-Timestamp" // Unix time in seconds
	HeaderID        = "X-Webhook-Id"        // identifies repeated deliveries; signed too, when present
	headerGitHub    = "X-Hub-Signature-256"
	headerGitHubID  = "X-Github-Delivery"
	headerStripe    = "Stripe-Signature"
	headerIdem      = "Idempotency-Key"
)

// maxSignatures is how many signatures of one delivery are looked at.
const maxSignatures = 10

// errUnproven does not name the reason: that would help an attacker.
func errUnproven() error {
	return &stepwell.Error{Code: stepwell.CodeUnauthenticated, Message: "the secret or the signature is missing or wrong", Hint: "check the webhook's secret and its auth"}
}

func errStale() error {
	return &stepwell.Error{Code: stepwell.CodeUnauthenticated, Message: "the signed time is too far from now", Hint: "check the clocks, or the webhook's replay_seconds"}
}

// proof is the evidence in a genuine delivery.
type proof struct {
	signature string // that matched, in hexadecimal; "" when nothing was signed
	signedID  string // a delivery's id that cannot be forged
}

// shows checks the headers of a delivery before its body is read: the secret itself, or that there is a signature at
// all.
func (h *Hooks) shows(r *record, header http.Header, now time.Time) error {
	switch r.Auth {
	case AuthNone:
		return nil
	case AuthSecret:
		shown := header.Get(HeaderSecret)
		if ok, err := h.matches(r, shown, now); err != nil || !ok || shown == "" {
			return first(err, errUnproven())
		}
		return nil
	}
	_, err := read(r.Auth, header)
	return err
}

// verify checks that a delivery whose headers are as they should be is genuine, and new enough.
func (h *Hooks) verify(r *record, d *Delivery, now time.Time) (proof, error) {
	if r.Auth == AuthNone || r.Auth == AuthSecret { // their headers have shown it
		return proof{}, nil
	}
	s, err := read(r.Auth, d.Header)
	if err != nil {
		return proof{}, err
	}
	matched, err := h.signed(r, s, d.Body, now)
	if err != nil {
		return proof{}, err
	}
	if matched == "" {
		return proof{}, errUnproven()
	}
	if r.Auth != AuthGitHub { // whose form signs no time
		window := time.Duration(r.ReplaySeconds) * time.Second
		if age := now.Sub(time.Unix(s.unix, 0)); age > window || age < -window {
			return proof{}, errStale()
		}
	}
	return proof{signature: matched, signedID: s.id}, nil
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// signature is the parsed signature of the headers.
type signature struct {
	prefix string // signed before the body
	unix   int64
	id     string
	macs   [][]byte
}

// read takes a signature from the headers in the form that the webhook's auth says.
func read(auth string, header http.Header) (signature, error) {
	var s signature
	switch auth {
	case AuthGitHub:
		s.add(strings.TrimPrefix(header.Get(headerGitHub), "sha256="))
	case AuthStripe:
		if err := s.stripe(header.Get(headerStripe)); err != nil {
			return s, err
		}
	default:
		s.add(strings.TrimPrefix(header.Get(HeaderSignature), "sha256="))
		at := header.Get(HeaderTimestamp)
		if err := s.time(at); err != nil {
			return s, err
		}
		s.prefix = at + "."
		if s.id = header.Get(HeaderID); s.id != "" {
			s.prefix = s.id + "." + s.prefix
		}
	}
	if len(s.macs) == 0 {
		return s, errUnproven()
	}
	return s, nil
}

func (s *signature) add(text string) {
	if mac, err := hex.DecodeString(text); err == nil && len(mac) == sha256.Size && len(s.macs) < maxSignatures {
		s.macs = append(s.macs, mac)
	}
}

func (s *signature) time(text string) error {
	unix, err := strconv.ParseInt(text, 10, 64)
	if err != nil || unix < 0 || unix > 1<<40 {
		return errUnproven()
	}
	s.unix = unix
	return nil
}

// stripe reads t=1492774577,v1=5257a8…,v1=…; other members are for other schemes.
func (s *signature) stripe(text string) error {
	at := ""
	for member := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(member), "=")
		switch name {
		case "t":
			at = value
		case "v1":
			s.add(value)
		}
	}
	s.prefix = at + "."
	return s.time(at)
}

// signed says which of the signatures is right, "" for none. It compares all with all, in constant time.
func (h *Hooks) signed(r *record, s signature, body []byte, now time.Time) (string, error) {
	matched := ""
	for _, c := range r.Secrets {
		if !c.valid(now) {
			continue
		}
		secret, err := h.open(r.ID, &c)
		if err != nil {
			return "", err
		}
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(s.prefix))
		mac.Write(body)
		own := mac.Sum(nil)
		for _, given := range s.macs {
			if hmac.Equal(own, given) {
				matched = hex.EncodeToString(own)
			}
		}
	}
	return matched, nil
}
