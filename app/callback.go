package app

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
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

// callbacks makes the tokens in the addresses by which something outside ends a step, and reads them. A token is worth
// nothing but that: whoever has it can end the one step that awaits its key.
type callbacks struct{ key []byte }

// openCallbacks finds the key, or makes it. It stays the same over restarts, as addresses are in use for long.
func openCallbacks(ctx context.Context, s store.Objects, ring *secret.Keyring) (*callbacks, error) {
	for range 2 { // another process may make it meanwhile
		o, err := s.Object(ctx, objectServer, callbackID)
		if err == nil {
			return readCallbacks(ctx, s, o, ring)
		}
		if stepwell.CodeOf(err) != stepwell.CodeNotFound {
			return nil, err
		}
		key := make([]byte, 32)
		rand.Read(key)
		sealed, err := ring.Seal(key, callbackID)
		if err != nil {
			return nil, err
		}
		body, err := json.Marshal(sealed)
		if err != nil {
			return nil, err
		}
		if _, err = s.PutObjects(ctx, store.Object{Kind: objectServer, ID: callbackID, Body: body}); err != nil && stepwell.CodeOf(err) != stepwell.CodeConflict {
			return nil, err
		}
	}
	return nil, &stepwell.Error{Code: stepwell.CodeInternal, Message: "the key of the callbacks is neither there nor can be made"}
}

// readCallbacks opens the key, and seals it anew when the master key has changed.
func readCallbacks(ctx context.Context, s store.Objects, o *store.Object, ring *secret.Keyring) (*callbacks, error) {
	var sealed []byte
	if err := json.Unmarshal(o.Body, &sealed); err != nil {
		return nil, fmt.Errorf("key of the callbacks: %w", err)
	}
	key, err := ring.Open(sealed, callbackID)
	if err != nil {
		return nil, fmt.Errorf("key of the callbacks: %w", err)
	}
	if ring.Current(sealed) {
		return &callbacks{key}, nil
	}
	if sealed, err = ring.Seal(key, callbackID); err != nil {
		return nil, err
	}
	body, err := json.Marshal(sealed)
	if err != nil {
		return nil, err
	}
	if _, err = s.PutObjects(ctx, store.Object{Kind: objectServer, ID: callbackID, Revision: o.Revision, Body: body}); err != nil && stepwell.CodeOf(err) != stepwell.CodeConflict {
		return nil, err
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
