package secret

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/store"
)

// Guard keeps secrets out of what is recorded and lets handlers have them. It is what those use who start and run
// steps. A nil *Guard lets everything through as it is. It may be used by any goroutine.
type Guard struct {
	Vault    *Vault
	Redactor *Redactor

	store  store.Objects
	sealer *Sealer
	opened cache
	digest []byte // key of Digest
}

// NewGuard makes one on a store, with a redactor that others may have. Load it before any step runs.
func NewGuard(s store.Objects, k *Keyring, r *Redactor) *Guard {
	return &Guard{Vault: NewVault(s, k, r), Redactor: r, store: s, sealer: NewSealer(k, r), digest: k.keys[0].digest}
}

// The object that keeps the key of digests.
const (
	objectServer = "server"
	digestID     = "digest-key"
)

// Load reads what the store has: the key of digests, and the vault (Vault.Load). *BrokenError: what can be opened can
// be used; without their key, digests are others than before.
func (g *Guard) Load(ctx context.Context) error {
	key, err := StoredKey(ctx, g.store, g.sealer.keys, objectServer, digestID)
	if err == nil {
		g.digest = key
	}
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

// Digest is by what data can be told from other data, and not be guessed: an HMAC. It stays the same when master keys
// are rotated. Nothing for nothing.
func (g *Guard) Digest(data []byte) []byte {
	if g == nil || len(data) == 0 {
		return data
	}
	m := hmac.New(sha256.New, g.digest)
	m.Write(data)
	return m.Sum(nil)
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

// Open puts back what Seal took out.
func (g *Guard) Open(execution string, raw []byte) ([]byte, error) {
	if g == nil {
		return raw, nil
	}
	return g.sealer.OpenJSON(execution, raw)
}

// Reseal seals for an execution what was sealed already, perhaps with less known. CodeInternal as with Open.
func (g *Guard) Reseal(execution string, raw []byte) ([]byte, error) {
	raw, err := g.Open(execution, raw)
	if err != nil {
		return nil, err
	}
	return g.Seal(execution, raw), nil
}

// SealParams seals the parameters of an execution that is to be started: those that are secret as a whole, and what
// is known in the others. The values of the secret ones are known to the execution from then on. The map itself is
// not changed.
func (g *Guard) SealParams(execution string, params map[string]any, secret func(name string) bool) (map[string]any, error) {
	if g == nil {
		return params, nil
	}
	out, pinned := make(map[string]any, len(params)), false
	for name, v := range params {
		raw, err := expr.Marshal(v)
		if err != nil {
			return nil, err
		}
		if v == nil || v == "" || !secret(name) {
			out[name] = v
			if sealed := g.Seal(execution, raw); len(sealed) != len(raw) || string(sealed) != string(raw) {
				out[name] = expr.Raw(sealed)
			}
			continue
		}
		texts(v, func(text string) bool { g.Redactor.Pin(execution, text); return true })
		out[name], pinned = expr.Raw(g.sealer.SealValue(raw)), true
	}
	if !pinned {
		return out, nil
	}
	return g.second(execution, out, secret)
}

// second seals in the others what only the secret parameters made known.
func (g *Guard) second(execution string, params map[string]any, secret func(name string) bool) (map[string]any, error) {
	for name, v := range params {
		if secret(name) {
			continue
		}
		raw, err := expr.Marshal(v)
		if err != nil {
			return nil, err
		}
		if Sealed(raw) {
			continue
		}
		if sealed := g.Seal(execution, raw); string(sealed) != string(raw) {
			params[name] = expr.Raw(sealed)
		}
	}
	return params, nil
}

// OpenParams puts back what SealParams took out, and makes it known to the execution: for one that is taken up
// again, or repeated.
func (g *Guard) OpenParams(execution string, raw json.RawMessage) (json.RawMessage, error) {
	if g == nil || !Sealed(raw) {
		return raw, nil
	}
	open, err := g.Open(execution, raw)
	return open, err
}

// Forget lets go of what is known for an execution that has ended.
func (g *Guard) Forget(execution string) {
	if g != nil {
		g.Redactor.Forget(execution)
	}
}

// Scope is what a step's templates see: what under gives them, opened, and `secrets` when the step may read them.
// Everything that they make of secrets becomes known. Err of it has to be asked after a use.
func (g *Guard) Scope(ctx context.Context, execution string, under expr.Scope, secrets bool) *Scope {
	return &Scope{ctx: ctx, g: g, execution: execution, under: under, secrets: secrets}
}
