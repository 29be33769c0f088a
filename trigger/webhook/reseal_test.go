package webhook_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/secret"
	"github.com/stepwell/stepwell/trigger/webhook"
)

// master is a keyring of keys that are made of these bytes.
func master(t *testing.T, of ...byte) *secret.Keyring {
	t.Helper()
	var keys [][]byte
	for _, b := range of {
		keys = append(keys, bytes.Repeat([]byte{b}, 32))
	}
	ring, err := secret.NewKeyring(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// TestReseal: the old master key can go, and deliveries go on, with the former secret of a rotation too. What cannot be
// opened stays as it is, and holds up nothing.
func TestReseal(t *testing.T) {
	r := newRig(t)
	former := r.hook(webhook.Webhook{ID: "turned", Auth: webhook.AuthHMAC}, "")
	shown, err := r.Rotate(t.Context(), "turned", "", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	hashed := r.hook(webhook.Webhook{ID: "hashed"}, "")
	r.ring = master(t, 9)
	r.boot()
	r.hook(webhook.Webhook{ID: "lost", Auth: webhook.AuthGitHub}, "what-nobody-can-open")

	rotated := master(t, 1, 0)
	if n, err := webhook.Reseal(t.Context(), r.store, rotated, time.Now); n != 2 || err == nil || !strings.Contains(err.Error(), "webhook lost") || strings.Contains(err.Error(), "turned") {
		t.Errorf("%d were sealed again, %v; want 2, and to be told of one", n, err)
	}
	if n, err := webhook.Reseal(t.Context(), r.store, rotated, time.Now); n != 0 || err == nil {
		t.Errorf("the second time %d were, %v", n, err)
	}
	r.ring = master(t, 1)
	r.boot()
	for _, key := range []string{former, shown} {
		r.deliver("turned", signed(key, "", `{"n":1}`, time.Now()))
	}
	r.deliver("hashed", call(`{}`, webhook.HeaderSecret, hashed))
	r.refused("turned", signed("another", "", `{}`, time.Now()), stepwell.CodeUnauthenticated)
	r.ring = master(t, 9)
	r.boot()
	r.deliver("lost", call(`{}`, "X-Hub-Signature-256", "sha256="+sign("what-nobody-can-open", `{}`)))
}
