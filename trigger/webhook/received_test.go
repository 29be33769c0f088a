package webhook_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/trigger/webhook"
)

// keep runs the hooks for as long as it takes to store what they have received.
func (r *rig) keep() {
	r.t.Helper()
	ctx, stop := context.WithCancel(r.t.Context())
	stop()
	if err := r.Run(ctx); err != nil {
		r.t.Fatal(err)
	}
}

// verdicts counts the last deliveries of a webhook by verdict.
func (r *rig) verdicts(id string) map[string]int {
	r.t.Helper()
	list, err := r.Received(r.t.Context(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	out := map[string]int{}
	for i := range list {
		out[list[i].Verdict]++
	}
	return out
}

// TestReceivedIsKept: deliveries outlive the process, two processes keep theirs beside each other, and a deleted webhook's go.
func TestReceivedIsKept(t *testing.T) {
	r := newRig(t)
	secret := r.hook(webhook.Webhook{ID: "w"}, "")
	first := r.Hooks
	r.deliver("w", call(`{"n": 1}`, webhook.HeaderSecret, secret))
	r.refused("w", call(`{"n": 2}`, webhook.HeaderSecret, "no"), stepwell.CodeUnauthenticated)
	r.boot() // another process
	r.deliver("w", call(`{"n": 3}`, webhook.HeaderSecret, secret))
	if n := r.verdicts("w")["started"]; n != 1 {
		t.Errorf("before anything is stored: %d", n)
	}
	r.keep()
	r.Hooks = first
	r.keep()
	r.boot()
	if got := fmt.Sprint(r.verdicts("w")); got != "map[refused:1 started:2]" {
		t.Errorf("after a restart: %s", got)
	}
	list, err := r.Received(t.Context(), "w")
	if err != nil || list[0].From != somewhere.String() || list[0].Bytes != len(`{"n": 1}`) {
		t.Errorf("%+v, %v", list, err)
	}
	if err := r.Delete(t.Context(), "w", -1); err != nil {
		t.Fatal(err)
	}
	r.hook(webhook.Webhook{ID: "w"}, "")
	if got := r.verdicts("w"); len(got) != 0 {
		t.Errorf("of the deleted webhook: %v", got)
	}
}

// TestReceivedIsBounded: strangers who guess secrets do not push out what is genuine.
func TestReceivedIsBounded(t *testing.T) {
	r := newRig(t)
	secret := r.hook(webhook.Webhook{ID: "w"}, "")
	for i := range 120 {
		r.deliver("w", call(fmt.Sprintf(`{"n": %d}`, i), webhook.HeaderSecret, secret))
	}
	if got := fmt.Sprint(r.verdicts("w")); got != "map[started:100]" {
		t.Errorf("genuine ones: %s", got)
	}
	for range 300 {
		if err := r.Admit("w", call("", webhook.HeaderSecret, "guessed")); stepwell.CodeOf(err) != stepwell.CodeUnauthenticated {
			t.Fatal(err)
		}
	}
	r.keep()
	if got := fmt.Sprint(r.verdicts("w")); got != "map[refused:50 started:50]" {
		t.Errorf("with guesses: %s", got)
	}
}
