package conductor

import (
	"context"
	"encoding/hex"
	"encoding/json"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/store"
)

// Secrets seals and hides secrets in records; package secret has it.
type Secrets interface {
	// SealParams gives parameters as they may be recorded, and makes known to the execution which of them are
	// secret.
	SealParams(execution string, params map[string]any, secret func(name string) bool) (map[string]any, error)
	// OpenParams puts sealed values back, and registers them for the execution.
	OpenParams(execution string, raw json.RawMessage) (json.RawMessage, error)
	// Seal takes secrets out of JSON that comes from outside and that steps will get, and Reseal does it again for an
	// execution that knows more of them.
	Seal(execution string, raw []byte) []byte
	Reseal(execution string, raw []byte) ([]byte, error)
	// SealWhole seals all of a value that may hold secrets not known yet; OpenWhole opens it and returns unsealed
	// values as they are.
	SealWhole(raw []byte) ([]byte, error)
	OpenWhole(raw []byte) ([]byte, error)
	// Text hides secrets, sealed ones too, in a text that is recorded for people.
	Text(execution, text string) string
	// Digest returns an HMAC of data: equal inputs are recognised, over restarts too, without revealing them.
	Digest(ctx context.Context, data []byte) ([]byte, error)
	// Forget drops the secrets of ended executions.
	Forget(execution string)
}

// noSecrets lets everything be recorded.
type noSecrets struct{}

func (noSecrets) SealParams(_ string, params map[string]any, _ func(string) bool) (map[string]any, error) {
	return params, nil
}
func (noSecrets) OpenParams(_ string, raw json.RawMessage) (json.RawMessage, error) { return raw, nil }
func (noSecrets) Seal(_ string, raw []byte) []byte                                  { return raw }
func (noSecrets) Reseal(_ string, raw []byte) ([]byte, error)                       { return raw, nil }
func (noSecrets) SealWhole(raw []byte) ([]byte, error)                              { return raw, nil }
func (noSecrets) OpenWhole(raw []byte) ([]byte, error)                              { return raw, nil }
func (noSecrets) Text(_, text string) string                                        { return text }
func (noSecrets) Digest(_ context.Context, data []byte) ([]byte, error)             { return data, nil }
func (noSecrets) Forget(string)                                                     {}

// sealParams gives parameters as they are recorded.
func (c *Conductor) sealParams(execution string, p *Pipeline, params map[string]any) (map[string]any, error) {
	if len(params) == 0 {
		return params, nil
	}
	secret := map[string]bool{}
	for i := range p.Parameters {
		secret[p.Parameters[i].Name] = p.Parameters[i].Secret
	}
	return c.o.Secrets.SealParams(execution, params, func(name string) bool { return secret[name] })
}

// hideProblems hides secrets in the problems of parameters.
func (c *Conductor) hideProblems(execution string, p *Pipeline, params map[string]any, problems definition.Problems) {
	_, err := c.sealParams(execution, p, params) // makes them known
	for i := range problems {
		if err != nil { // they are no values at all
			problems[i].Message, problems[i].Hint = "a parameter is no JSON", ""
		}
		problems[i].Message, problems[i].Hint = c.o.Secrets.Text(execution, problems[i].Message), c.o.Secrets.Text(execution, problems[i].Hint)
	}
	c.o.Secrets.Forget(execution)
}

// hiddenKey begins a concurrency key that is not recorded as it is.
const hiddenKey = "***"

// concurrencyKey evaluates the pipeline's. If sealing secrets changes it, its digest is recorded, which executions
// share as they would the key.
func (c *Conductor) concurrencyKey(ctx context.Context, execution string, p *Pipeline, params, sealed map[string]any) (string, error) {
	key, err := p.plan.Concurrency.Key(params)
	if err != nil {
		return "", &stepwell.Error{Code: stepwell.CodeOf(err), Message: c.o.Secrets.Text(execution, err.Error()), Hint: stepwell.HintOf(err)}
	}
	if open, err := p.plan.Concurrency.Key(sealed); err == nil && open == key {
		return key, nil
	}
	sum, err := c.o.Secrets.Digest(ctx, []byte(key))
	if err != nil {
		return "", err
	}
	return hiddenKey + hex.EncodeToString(sum), nil
}

// openParams reads the parameters of an execution that has ended, for another one.
func (c *Conductor) openParams(row *store.Execution) (map[string]any, error) {
	raw, err := c.o.Secrets.OpenParams(row.ID, row.Params)
	c.o.Secrets.Forget(row.ID)
	if err != nil {
		return nil, err
	}
	return decodeObject(raw)
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
