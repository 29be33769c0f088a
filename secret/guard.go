package secret

import (
	"context"
	"encoding/json"

	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/store"
)

// Guard keeps secrets out of what is recorded and lets handlers have them. It is what those use who start and run
// steps. A nil *Guard lets everything through as it is. It may be used by any goroutine.
type Guard struct {
	Vault    *Vault
	Redactor *Redactor

	sealer *Sealer
	opened cache
}

// NewGuard makes one on a store. Load the vault before any step runs.
func NewGuard(s store.Objects, k *Keyring) *Guard {
	r := NewRedactor()
	return &Guard{Vault: NewVault(s, k, r), Redactor: r, sealer: NewSealer(k, r)}
}

// Text hides secrets in a text.
func (g *Guard) Text(execution, text string) string {
	if g == nil {
		return text
	}
	return g.Redactor.Text(execution, text)
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
