package access

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

const (
	maxKeys = 10_000
	keysFor = 10 * time.Second // for how long keys are believed to be as they were read
	seekFor = time.Second      // between two reloads because of unknown keys
	usesFor = time.Minute      // how often uses are written
	maxName = 200
)

// Keys are the API keys. It is safe for concurrent use. Changes of another process are seen within ten seconds, its own
// at once.
type Keys struct {
	seeking sync.Mutex // held while seek reads; before mu
	sought  time.Time  // guarded by seeking

	store store.Objects
	log   *slog.Logger

	mu      sync.Mutex
	read    time.Time // when; zero: not yet
	changes int       // made here: a reading from before a change is discarded
	byID    map[string]*kept
	used    map[string]time.Time // not written yet
}

// kept is a key in memory.
type kept struct {
	key  Key
	hash []byte
}

// NewKeys makes it on a store. log defaults to slog.Default.
func NewKeys(s store.Objects, log *slog.Logger) *Keys {
	log = cmp.Or(log, slog.Default())
	return &Keys{store: s, log: log, byID: map[string]*kept{}, used: map[string]time.Time{}}
}

// NewKey asks for a key.
type NewKey struct {
	Name    string        `json:"name" minLength:"1" maxLength:"200" doc:"Unique."`
	Role    Role          `json:"role" enum:"viewer,operator,editor,admin,worker"`
	Expires resource.Time `json:"expires_at,omitzero" doc:"Defaults to never."`
	By      string        `json:"-"` // the author
}

// Create makes a key. The token is the only copy: nothing that is kept lets anybody find it again. CodeInvalid,
// CodeConflict when the name is taken.
func (k *Keys) Create(ctx context.Context, n NewKey) (key Key, token string, err error) {
	invalid := func(message string) (Key, string, error) {
		return Key{}, "", &stepwell.Error{Code: stepwell.CodeInvalid, Message: "API key: " + message}
	}
	if err := resource.Check(&n); err != nil {
		return Key{}, "", err
	}
	switch {
	case strings.TrimSpace(n.Name) != n.Name:
		return invalid("a name without spaces around it is needed")
	case !n.Expires.IsZero() && !n.Expires.After(time.Now()):
		return invalid("it would have expired already")
	}
	if err := k.load(ctx, true); err != nil {
		return Key{}, "", err
	}
	k.mu.Lock()
	full := len(k.byID) >= maxKeys
	k.mu.Unlock()
	if full {
		return Key{}, "", &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("there are %d API keys already", maxKeys), Hint: "delete revoked ones"}
	}
	token, id, hash := makeToken()
	body := keyBody{Role: n.Role, Hash: hash, By: n.By, Expires: n.Expires.UTC()}
	key, err = k.put(ctx, store.Object{Kind: ObjectKey, ID: id, Name: n.Name}, body)
	if stepwell.CodeOf(err) == stepwell.CodeConflict {
		err = &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf("an API key named %q exists already", n.Name), Hint: "use another name"}
	}
	return key, token, err
}

// put stores a key and takes it into memory.
func (k *Keys) put(ctx context.Context, o store.Object, body keyBody) (Key, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return Key{}, err
	}
	o.Body = raw
	out, err := k.store.PutObjects(ctx, o)
	if err != nil {
		return Key{}, err
	}
	key := body.key(&out[0])
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changes++
	k.byID[key.ID] = &kept{key: key, hash: body.Hash}
	return key, nil
}

// List lists all keys in order of id, also expired and revoked ones.
func (k *Keys) List(ctx context.Context) ([]Key, error) {
	uses, err := k.uses(ctx)
	if err != nil {
		return nil, err
	}
	var out []Key
	err = k.each(ctx, func(o *store.Object, b *keyBody) {
		key := b.key(o)
		key.LastUsed = resource.At(uses[key.ID])
		out = append(out, key)
	})
	return out, err
}

// Key finds one by id or name; CodeNotFound.
func (k *Keys) Key(ctx context.Context, idOrName string) (Key, error) {
	o, body, err := k.object(ctx, idOrName)
	if err != nil {
		return Key{}, err
	}
	key := body.key(o)
	uses, err := k.uses(ctx)
	key.LastUsed = resource.At(uses[key.ID])
	return key, err
}

// Revoke ends a key for good; nothing happens when it has been already. CodeNotFound.
func (k *Keys) Revoke(ctx context.Context, idOrName string) (Key, error) {
	o, body, err := k.object(ctx, idOrName)
	if err != nil {
		return Key{}, err
	}
	if !body.Revoked.IsZero() {
		return body.key(o), nil
	}
	body.Revoked = time.Now().UTC()
	return k.put(ctx, *o, *body)
}

// Delete removes a key that was revoked or has expired; CodeConflict for any other and for another revision, CodeNotFound.
func (k *Keys) Delete(ctx context.Context, idOrName string, revision int64) error {
	o, body, err := k.object(ctx, idOrName)
	if err != nil {
		return err
	}
	if key := body.key(o); key.usable(time.Now()) == nil {
		return &stepwell.Error{Code: stepwell.CodeConflict, Message: "the API key still works", Hint: "revoke it first"}
	}
	if revision == store.AnyRevision {
		revision = o.Revision
	}
	if err := k.store.DeleteObject(ctx, ObjectKey, o.ID, revision); err != nil {
		return err
	}
	k.mu.Lock()
	k.changes++
	delete(k.byID, o.ID)
	delete(k.used, o.ID)
	k.mu.Unlock()
	if err := k.store.DeleteObject(ctx, objectUse, o.ID, store.AnyRevision); err != nil && stepwell.CodeOf(err) != stepwell.CodeNotFound {
		return err
	}
	return nil
}

func (k *Keys) object(ctx context.Context, idOrName string) (*store.Object, *keyBody, error) {
	o, err := k.store.Object(ctx, ObjectKey, idOrName)
	if err != nil {
		return nil, nil, err
	}
	var body keyBody
	if err := json.Unmarshal(o.Body, &body); err != nil {
		return nil, nil, fmt.Errorf("API key %s: %w", o.ID, err)
	}
	return o, &body, nil
}

// Any reports whether there is any key, also an expired or revoked one: an expiry must not open the server again.
func (k *Keys) Any(ctx context.Context) (bool, error) {
	if err := k.load(ctx, false); err != nil {
		return false, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.byID) > 0, nil
}

// Authenticate finds out whose token it is. CodeUnauthenticated.
func (k *Keys) Authenticate(ctx context.Context, token string) (Principal, error) {
	id, hash, err := parseToken(token)
	if err != nil {
		return Principal{}, err
	}
	if err := k.load(ctx, false); err != nil {
		return Principal{}, err
	}
	if err := k.seek(ctx, id); err != nil {
		return Principal{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	known := k.byID[id]
	want := make([]byte, len(hash)) // of no secret, so that an unknown id takes as long
	if known != nil {
		want = known.hash
	}
	if !same(hash[:], want) || known == nil {
		return Principal{}, errBadKey
	}
	return k.use(known)
}

// current is whose key has the id, and when it ends (zero: not by itself), for a session that was opened with it.
// CodeUnauthenticated when it does not work any more.
func (k *Keys) current(ctx context.Context, id string) (Principal, time.Time, error) {
	if err := k.load(ctx, false); err != nil {
		return Principal{}, time.Time{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	known := k.byID[id]
	if known == nil {
		return Principal{}, time.Time{}, errBadKey
	}
	p, err := k.use(known)
	return p, known.key.Expires.Time, err
}

// use is whose key it is, and notes that it was used; mu is held.
func (k *Keys) use(known *kept) (Principal, error) {
	now := time.Now()
	if err := known.key.usable(now); err != nil {
		return Principal{}, err
	}
	k.used[known.key.ID] = now
	return Principal{Name: known.key.Name, Role: known.key.Role, Kind: KindKey, KeyID: known.key.ID}, nil
}
