package secret

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/store"
)

// Guard redacts secrets from recorded data and opens them for handlers, for code that starts and runs steps. A nil
// *Guard changes nothing. It is safe for concurrent use.
type Guard struct {
	Vault    *Vault
	Redactor *Redactor

	store  store.Objects
	sealer *Sealer
	opened cache

	sources sources

	digesting sync.Mutex
	digest    []byte // key of Digest, nil until it is known
}

// NewGuard makes one on a store, with a redactor that others may have. Load it before any step runs, in one
// of the two ways.
func NewGuard(s store.Objects, k *Keyring, r *Redactor) *Guard {
	return &Guard{Vault: NewVault(s, k, r), Redactor: r, store: s, sealer: NewSealer(k, r)}
}

// The object that keeps the key of digests.
const (
	objectServer = "server"
	digestID     = "digest-key"
)

// Load reads the master keys, the digest key and the vault (Vault.Load). *BrokenError: the readable secrets can be
// used; without their key, digests differ from earlier ones.
func (g *Guard) Load(ctx context.Context) error {
	if err := g.sealer.keys.Check(); err != nil {
		return err
	}
	_, err := g.digestKey(ctx)
	if err != nil && stepwell.CodeOf(err) != stepwell.CodeInternal {
		return err
	}
	vault := g.Vault.Load(ctx)
	broken, ok := errors.AsType[*BrokenError](vault)
	if err == nil || vault != nil && !ok {
		return vault
	}
	if broken == nil {
		broken = &BrokenError{Err: err}
	}
	broken.Names = append(broken.Names, "the "+digestID)
	return broken
}

// LoadLate is Load if the store has anything to load. Otherwise the master keys are read on first need: a secret
// parameter, a sealed value, a digest.
func (g *Guard) LoadLate(ctx context.Context) error {
	for _, kind := range []string{ObjectSecret, objectServer} {
		found, err := g.store.Objects(ctx, store.ObjectFilter{Kind: kind, Limit: 1})
		if err != nil {
			return err
		}
		if len(found) > 0 {
			return g.Load(ctx)
		}
	}
	return nil
}

// Refresh rereads the vault if a secret is among the objects that another process has changed or deleted. Deleted
// secrets stay hidden.
func (g *Guard) Refresh(ctx context.Context, changed []store.Object) error {
	if !slices.ContainsFunc(changed, func(o store.Object) bool { return o.Kind == ObjectSecret }) {
		return nil
	}
	return g.Vault.reload(ctx)
}

// Digest returns an HMAC of data, so that equal inputs can be recognised without revealing them. It stays the same when master keys
// are rotated. Nothing for nothing. Errors as with Keyring.Check.
func (g *Guard) Digest(ctx context.Context, data []byte) ([]byte, error) {
	if g == nil || len(data) == 0 {
		return data, nil
	}
	key, err := g.digestKey(ctx)
	if key == nil {
		return nil, err
	}
	m := hmac.New(sha256.New, key)
	m.Write(data)
	return m.Sum(nil), nil
}

// digestKey is the key of digests. When the stored one cannot be opened, it is derived from the master key, with an
// error that gives the reason.
func (g *Guard) digestKey(ctx context.Context) ([]byte, error) {
	g.digesting.Lock()
	defer g.digesting.Unlock()
	if g.digest != nil {
		return g.digest, nil
	}
	keys, err := g.sealer.keys.ready()
	if err != nil {
		return nil, err
	}
	key, err := StoredKey(ctx, g.store, g.sealer.keys, objectServer, digestID)
	switch {
	case err == nil:
		g.digest = key
	case stepwell.CodeOf(err) == stepwell.CodeInternal:
		g.digest = keys[0].digest
	default:
		return nil, err
	}
	return g.digest, err
}

// Text hides secrets in a text, sealed ones too.
func (g *Guard) Text(execution, text string) string {
	if g == nil {
		return text
	}
	return MaskText(g.Redactor.Text(execution, text))
}

// JSON hides secrets in JSON.
func (g *Guard) JSON(execution string, raw []byte) []byte {
	if g == nil || len(raw) == 0 {
		return raw
	}
	return g.Redactor.JSON(execution, raw)
}

// Seal replaces secrets in JSON by tokens.
func (g *Guard) Seal(execution string, raw []byte) []byte {
	if g == nil || len(raw) == 0 {
		return raw
	}
	return g.sealer.SealJSON(execution, raw)
}

// Open opens the values that Seal sealed.
func (g *Guard) Open(execution string, raw []byte) ([]byte, error) {
	if g == nil {
		return raw, nil
	}
	return g.sealer.OpenJSON(execution, raw)
}

// Reseal seals for an execution a text sealed before, perhaps with fewer known secrets. CodeInternal as with Open.
func (g *Guard) Reseal(execution string, raw []byte) ([]byte, error) {
	raw, err := g.Open(execution, raw)
	if err != nil {
		return nil, err
	}
	return g.Seal(execution, raw), nil
}

// SealWhole seals JSON as one value, while its secrets are unknown. Errors as with Keyring.Check.
func (g *Guard) SealWhole(raw []byte) ([]byte, error) {
	if g == nil || len(raw) == 0 {
		return raw, nil
	}
	token, err := g.sealer.keys.token(tokenJSON, string(raw))
	if err != nil {
		return nil, err
	}
	return []byte(quote(token)), nil
}

// OpenWhole opens a value of SealWhole, and returns anything else unchanged. It makes no secret known. CodeInternal
// when the value was changed, or its key is missing.
func (g *Guard) OpenWhole(raw []byte) ([]byte, error) {
	var text string
	if g == nil || json.Unmarshal(raw, &text) != nil || !strings.HasPrefix(text, tokenHead) || !strings.HasSuffix(text, tokenTail) {
		return raw, nil
	}
	_, value, err := g.sealer.keys.untoken(strings.TrimSuffix(strings.TrimPrefix(text, tokenHead), tokenTail))
	return []byte(value), err
}

// SealParams seals the parameters of a new execution: secret ones as a whole, and known secrets in the others. The
// execution knows the secret values from then on. The map itself is not changed.
func (g *Guard) SealParams(execution string, params map[string]any, secret func(name string) bool) (map[string]any, error) {
	if g == nil {
		return params, nil
	}
	out := make(map[string]any, len(params))
	for name, v := range params {
		if v == nil || v == "" || !secret(name) {
			continue
		}
		raw, err := expr.Marshal(v)
		if err != nil {
			return nil, err
		}
		texts(v, func(text string) bool { g.Redactor.Pin(execution, text); return true })
		sealed, err := g.sealer.SealValue(raw)
		if err != nil {
			return nil, err
		}
		out[name] = expr.Raw(sealed)
	}
	for name, v := range params { // all secrets are known now
		if _, done := out[name]; done {
			continue
		}
		raw, err := expr.Marshal(v)
		if err != nil {
			return nil, err
		}
		out[name] = v
		if sealed := g.Seal(execution, raw); string(sealed) != string(raw) {
			out[name] = expr.Raw(sealed)
		}
	}
	return out, nil
}

// OpenParams opens the values that SealParams sealed, and makes them known to the execution: for one that is resumed or
// repeated.
func (g *Guard) OpenParams(execution string, raw json.RawMessage) (json.RawMessage, error) {
	if g == nil || !Sealed(raw) {
		return raw, nil
	}
	open, err := g.Open(execution, raw)
	return open, err
}

// Forget drops the secrets known to an execution that has ended.
func (g *Guard) Forget(execution string) {
	if g != nil {
		g.Redactor.Forget(execution)
	}
}

// Scope is a step's template scope: the names of under, opened, and `secrets` when the step may read them. Everything
// that templates make of secrets becomes known. Check Err of it (*Scope) after use.
func (g *Guard) Scope(ctx context.Context, execution string, under expr.Scope, secrets bool) expr.Scope {
	if g == nil {
		return under
	}
	return &Scope{ctx: ctx, g: g, execution: execution, under: under, secrets: secrets}
}
