package access

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// The kinds of the objects in which keys are kept. When a key was used is kept apart, so that noting it never
// undoes that the key was revoked.
const (
	ObjectKey = "api_key"
	objectUse = "api_key_use"
)

// Key is an API key without its secret.
type Key struct {
	ID       string        `json:"key_id"`
	Name     string        `json:"name"`
	Role     Role          `json:"role" enum:"viewer,operator,editor,admin,worker"`
	Created  resource.Time `json:"created_at"`
	By       resource.Ref  `json:"created_by"`
	Expires  resource.Time `json:"expires_at"` // null: never
	Revoked  resource.Time `json:"revoked_at"`
	LastUsed resource.Time `json:"last_used_at" doc:"To the minute."`
	revision int64
}

// Identity is the id.
func (k *Key) Identity() string { return k.ID }

// ETag is the revision: it changes when the key is revoked.
func (k *Key) ETag() int64 { return k.revision }

// Shown is the key itself.
func (k *Key) Shown() *Key { return k }

// usable says why a key does not work any more.
func (k *Key) usable(now time.Time) error {
	const hint = "create another one: stepwell keys create"
	switch {
	case !k.Revoked.IsZero():
		return unauthenticated("the API key was revoked", hint)
	case !k.Expires.IsZero() && !now.Before(k.Expires.Time):
		return unauthenticated("the API key has expired", hint)
	}
	return nil
}

// keyBody is how a key is stored.
type keyBody struct {
	Role    Role      `json:"role"`
	Hash    []byte    `json:"hash"` // SHA-256 of the secret
	By      string    `json:"created_by,omitempty"`
	Expires time.Time `json:"expires_at,omitzero"`
	Revoked time.Time `json:"revoked_at,omitzero"`
}

func (b *keyBody) key(o *store.Object) Key {
	return Key{ID: o.ID, Name: o.Name, Role: b.Role, Created: resource.At(o.Created), By: resource.Ref(b.By), Expires: resource.At(b.Expires), Revoked: resource.At(b.Revoked), revision: o.Revision}
}

// tokenPrefix begins every API key, so that scanners of repositories find it.
const tokenPrefix = "sw_"

const secretBytes = 32

// makeToken makes the text of a new key, its id, and the hash of its secret.
func makeToken() (token, id string, hash []byte) {
	var head [8]byte
	var secret [secretBytes]byte
	rand.Read(head[:]) // never fails
	rand.Read(secret[:])
	id = hex.EncodeToString(head[:])
	sum := sha256.Sum256(secret[:])
	return tokenPrefix + id + "_" + base64.RawURLEncoding.EncodeToString(secret[:]), id, sum[:]
}

// errBadKey is the same for every bad key, whatever the reason.
var errBadKey = &stepwell.Error{Code: stepwell.CodeUnauthenticated, Message: "the API key is not valid", Hint: "it looks like sw_<id>_<secret>; check that it was copied whole"}

// parseToken takes the text of a key apart. The last bits of base64 count: a key has one spelling.
func parseToken(token string) (id string, hash [sha256.Size]byte, err error) {
	rest, ok := strings.CutPrefix(token, tokenPrefix)
	id, text, cut := strings.Cut(rest, "_")
	secret, derr := base64.RawURLEncoding.Strict().DecodeString(text)
	if !ok || !cut || derr != nil || len(secret) != secretBytes || len(id) != 16 {
		return "", hash, errBadKey
	}
	return id, sha256.Sum256(secret), nil
}

// same compares in constant time.
func same(a, b []byte) bool { return subtle.ConstantTimeCompare(a, b) == 1 }
