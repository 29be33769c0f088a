package app

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/secret"
	"github.com/stepwell/stepwell/store"
)

// The object that keeps the key by which addresses of callbacks are signed.
const (
	objectServer = "server"
	callbackID   = "callback-key"
)

// maxToken bounds a token that comes from outside.
const maxToken = 4096

// callbacks makes and reads the tokens in callback URLs. A token grants one thing: to end the one step that awaits its
// key.
type callbacks struct{ key []byte }

// openCallbacks finds the key, or makes it. It stays the same over restarts, as addresses are in use for long.
func openCallbacks(ctx context.Context, s store.Objects, ring *secret.Keyring) (*callbacks, error) {
	key, err := secret.StoredKey(ctx, s, ring, objectServer, callbackID)
	if err != nil {
		return nil, fmt.Errorf("callbacks: %w", err)
	}
	return &callbacks{key}, nil
}

func (c *callbacks) sum(key string) []byte {
	m := hmac.New(sha256.New, c.key)
	m.Write([]byte(key))
	return m.Sum(nil)[:20]
}

// Token stands for the key of a callback, always the same one for a key.
func (c *callbacks) Token(key string) string {
	e := base64.RawURLEncoding
	return e.EncodeToString([]byte(key)) + "." + e.EncodeToString(c.sum(key))
}

// Key reads a token: CodeNotFound unless Token has made it.
func (c *callbacks) Key(token string) (string, error) {
	e := base64.RawURLEncoding.Strict()
	name, sum, ok := strings.Cut(token, ".")
	key, err := e.DecodeString(name)
	mac, err2 := e.DecodeString(sum)
	if !ok || len(token) > maxToken || err != nil || err2 != nil || !hmac.Equal(mac, c.sum(string(key))) {
		return "", &stepwell.Error{Code: stepwell.CodeNotFound, Message: "there is no such callback"}
	}
	return string(key), nil
}
