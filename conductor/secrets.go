package conductor

import (
	"encoding/json"

	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/store"
)

// Secrets keeps secrets out of what is recorded; package secret has it.
type Secrets interface {
	// SealParams gives parameters as they may be recorded, and makes known to the execution which of them are
	// secret.
	SealParams(execution string, params map[string]any, secret func(name string) bool) (map[string]any, error)
	// OpenParams puts back what was sealed, and makes it known to the execution.
	OpenParams(execution string, raw json.RawMessage) (json.RawMessage, error)
	// Forget is told of executions that have ended.
	Forget(execution string)
}

// noSecrets lets everything be recorded.
type noSecrets struct{}

func (noSecrets) SealParams(_ string, params map[string]any, _ func(string) bool) (map[string]any, error) {
	return params, nil
}
func (noSecrets) OpenParams(_ string, raw json.RawMessage) (json.RawMessage, error) { return raw, nil }
func (noSecrets) Forget(string)                                                     {}

// sealParams writes parameters, checked and complete, as they are recorded.
func (c *Conductor) sealParams(execution string, p *Pipeline, params map[string]any) (json.RawMessage, error) {
	if len(params) == 0 {
		return expr.Marshal(params)
	}
	secret := map[string]bool{}
	for i := range p.Parameters {
		secret[p.Parameters[i].Name] = p.Parameters[i].Secret
	}
	sealed, err := c.o.Secrets.SealParams(execution, params, func(name string) bool { return secret[name] })
	if err != nil {
		return nil, err
	}
	return expr.Marshal(sealed)
}

// openParams reads the parameters of an execution that has ended, for another one.
func (c *Conductor) openParams(row *store.Execution) (map[string]any, error) {
	raw, err := c.o.Secrets.OpenParams(row.ID, row.Params)
	c.o.Secrets.Forget(row.ID)
	if err != nil {
		return nil, err
	}
	return decodeParams(raw)
}

// knowParams makes the secret parameters of an execution known that is taken up. When they cannot be opened, the
// steps that need them say so.
func (c *Conductor) knowParams(row *store.Execution) {
	if row.Status.Terminal() {
		return
	}
	if _, err := c.o.Secrets.OpenParams(row.ID, row.Params); err != nil {
		c.o.Log.Error("secret parameters cannot be read", "execution", row.ID, "error", err)
	}
}
