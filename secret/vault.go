package secret

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// ObjectSecret is the kind of the objects in which secrets are kept.
const ObjectSecret = "secret"

// freshFor is for how long the vault is believed to be as it was read.
const freshFor = 10 * time.Second

// Info is a secret without its value, which is never shown.
type Info struct {
	Name    string        `json:"name"`
	Version int64         `json:"version"` // from 1
	Created resource.Time `json:"created_at"`
	Updated resource.Time `json:"updated_at"`
	By      resource.Ref  `json:"updated_by"`
}

// Identity is the name.
func (i *Info) Identity() string { return i.Name }

// ETag is the version.
func (i *Info) ETag() int64 { return i.Version }

// vaultBody is how a secret is stored.
type vaultBody struct {
	Sealed []byte `json:"sealed"`
	By     string `json:"by,omitempty"`
}

// Vault stores named secrets, encrypted, in a store. It is safe for concurrent use. Changes of another process are seen
// within ten seconds, its own at once.
type Vault struct {
	store  store.Objects
	keys   *Keyring
	redact *Redactor

	changing sync.Mutex // one change or reading at a time

	mu     sync.Mutex
	values map[string]string
	broken map[string]error // secrets that cannot be opened
	read   time.Time
}

// NewVault makes one. All values are made known to the redactor before anybody gets them.
func NewVault(s store.Objects, k *Keyring, r *Redactor) *Vault {
	return &Vault{store: s, keys: k, redact: r, values: map[string]string{}, broken: map[string]error{}}
}

// Set stores a value under a name. revision is the expected version, 0 for a new secret, store.AnyRevision for any. by
// is the author. CodeInvalid, CodeConflict, CodeLimit.
func (v *Vault) Set(ctx context.Context, name, value string, revision int64, by string) (Info, error) {
	if err := CheckName(name); err != nil {
		return Info{}, err
	}
	if err := CheckValue(value); err != nil {
		return Info{}, err
	}
	v.changing.Lock()
	defer v.changing.Unlock()
	if err := v.fits(name, value); err != nil {
		return Info{}, err
	}
	v.redact.Add(value)
	o, err := v.put(ctx, name, value, revision, by)
	if err != nil {
		return Info{}, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.values[name] = value
	delete(v.broken, name)
	return infoOf(o, by), nil
}

func (v *Vault) put(ctx context.Context, name, value string, revision int64, by string) (*store.Object, error) {
	sealed, err := v.keys.Seal([]byte(value), what(name))
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(vaultBody{Sealed: sealed, By: by})
	if err != nil {
		return nil, err
	}
	out, err := v.store.PutObjects(ctx, store.Object{Kind: ObjectSecret, ID: name, Revision: revision, Body: raw})
	if err != nil {
		return nil, err
	}
	return &out[0], nil
}

// fits is CodeLimit when the vault would hold too much.
func (v *Vault) fits(name, value string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	total := len(value)
	for n, other := range v.values {
		if n != name {
			total += len(other)
		}
	}
	_, known := v.values[name]
	if !known && len(v.values) >= maxSecrets || total > maxTotal {
		return &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("the vault holds at most %d secrets of %d MiB together", maxSecrets, maxTotal>>20)}
	}
	return nil
}

func what(name string) string { return "secret " + name }

func infoOf(o *store.Object, by string) Info {
	return Info{Name: o.ID, Version: o.Revision, Created: resource.At(o.Created), Updated: resource.At(o.Updated), By: resource.Ref(by)}
}

// Get is a secret's value; CodeNotFound.
func (v *Vault) Get(ctx context.Context, name string) (string, error) {
	if err := v.fresh(ctx); err != nil {
		return "", err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.broken[name]; err != nil {
		return "", err
	}
	value, ok := v.values[name]
	if !ok {
		return "", &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf("there is no secret %q", name), Hint: "stepwell secrets set " + name}
	}
	return value, nil
}

// Names lists the names of all secrets in order.
func (v *Vault) Names() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	names := make([]string, 0, len(v.values))
	for name := range v.values {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// List lists all secrets in order of name, without their values.
func (v *Vault) List(ctx context.Context) ([]Info, error) {
	var out []Info
	err := v.each(ctx, func(o *store.Object, b *vaultBody) { out = append(out, infoOf(o, b.By)) })
	return out, err
}

// Delete removes a secret; CodeNotFound, CodeConflict. Its value stays hidden.
func (v *Vault) Delete(ctx context.Context, name string, revision int64) error {
	v.changing.Lock()
	defer v.changing.Unlock()
	if err := v.store.DeleteObject(ctx, ObjectSecret, name, revision); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.values, name)
	delete(v.broken, name)
	return nil
}

// Rewrap reseals all secrets of older keys with the first key, so that the old keys can be removed; but outputs of
// executions may still need them. It returns their number. A secret that cannot be opened is skipped.
func (v *Vault) Rewrap(ctx context.Context) (n int, err error) {
	v.changing.Lock()
	defer v.changing.Unlock()
	var old []store.Object
	var bodies []vaultBody
	err = v.each(ctx, func(o *store.Object, b *vaultBody) {
		if !v.keys.Current(b.Sealed) {
			old, bodies = append(old, *o), append(bodies, *b)
		}
	})
	for i := range old {
		value, failed := v.keys.Open(bodies[i].Sealed, what(old[i].ID))
		if failed == nil {
			_, failed = v.put(ctx, old[i].ID, string(value), old[i].Revision, bodies[i].By)
		}
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		n++
	}
	return n, err
}

// BrokenError names the secrets that cannot be opened; all others can be used.
type BrokenError struct {
	Names []string
	Err   error // of the last one
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf("%d secrets cannot be opened: %v", len(e.Names), e.Err)
}
func (e *BrokenError) Unwrap() error { return e.Err }

// Load reads all secrets. It skips secrets that cannot be opened: *BrokenError.
func (v *Vault) Load(ctx context.Context) error {
	v.changing.Lock()
	defer v.changing.Unlock()
	values, broken := map[string]string{}, map[string]error{}
	wrong := &BrokenError{}
	err := v.each(ctx, func(o *store.Object, b *vaultBody) {
		value, err := v.keys.Open(b.Sealed, what(o.ID))
		if err != nil {
			broken[o.ID] = err
			wrong.Names, wrong.Err = append(wrong.Names, o.ID), err
			return
		}
		v.redact.Add(string(value))
		values[o.ID] = string(value)
	})
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.values, v.broken, v.read = values, broken, time.Now()
	if wrong.Err != nil {
		return wrong
	}
	return nil
}

// fresh reads the secrets again when that was a while ago.
func (v *Vault) fresh(ctx context.Context) error {
	v.mu.Lock()
	old := time.Since(v.read) >= freshFor
	if old && !v.read.IsZero() {
		v.read = time.Now() // concurrent readers use the old values
	}
	v.mu.Unlock()
	if !old {
		return nil
	}
	return v.reload(ctx)
}

// reload is Load; a secret that cannot be opened is an error on use.
func (v *Vault) reload(ctx context.Context) error {
	err := v.Load(ctx)
	if _, ok := errors.AsType[*BrokenError](err); ok {
		return nil // reported on use of one of them
	}
	return err
}

func (v *Vault) each(ctx context.Context, do func(*store.Object, *vaultBody)) error {
	return resource.Each(ctx, v.store, ObjectSecret, func(o *store.Object) error {
		var b vaultBody
		if err := json.Unmarshal(o.Body, &b); err != nil {
			return fmt.Errorf("%s: %w", what(o.ID), err)
		}
		do(o, &b)
		return nil
	})
}
