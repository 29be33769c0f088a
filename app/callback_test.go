package app

import (
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/secret"
	"github.com/stepwell/stepwell/store/sqlite"
)

func TestCallbackTokens(t *testing.T) {
	ctx := t.Context()
	s, err := sqlite.Open(ctx, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ring, err := secret.NewKeyring(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	first, err := openCallbacks(ctx, s, ring)
	if err != nil {
		t.Fatal(err)
	}
	again, err := openCallbacks(ctx, s, ring) // after a restart
	if err != nil {
		t.Fatal(err)
	}
	const key = "callback:0198-a/loop[3].ask:ä#1"
	token := first.Token(key)
	if got, err := again.Key(token); err != nil || got != key || again.Token(key) != token {
		t.Fatalf("after a restart: %q, %v", got, err)
	}
	other := first.Token("callback:0198-a/other#1")
	name, _, _ := strings.Cut(token, ".")
	_, sum, _ := strings.Cut(other, ".")
	for _, forged := range []string{"", ".", name, name + ".", name + "." + sum, token + "A", token[1:], strings.Repeat("A", 10_000) + ".A", token[:len(token)-1] + "\n"} {
		if got, err := first.Key(forged); stepwell.CodeOf(err) != stepwell.CodeNotFound {
			t.Errorf("%.60q was taken for %q: %v", forged, got, err)
		}
	}
	newer, err := secret.NewKeyring(append(make([]byte, 31), 1), make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openCallbacks(ctx, s, newer); err != nil {
		t.Fatal(err)
	}
	alone, err := secret.NewKeyring(append(make([]byte, 31), 1))
	if err != nil {
		t.Fatal(err)
	}
	if rotated, err := openCallbacks(ctx, s, alone); err != nil || rotated.Token(key) != token {
		t.Fatalf("after the master key was rotated: %v", err)
	}
	raw, err := s.Object(ctx, objectServer, callbackID)
	if err != nil || strings.Contains(string(raw.Body), string(first.key)) {
		t.Fatalf("the key is not sealed: %v", err)
	}
}
