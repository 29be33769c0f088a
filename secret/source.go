package secret

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
)

// Source has secrets that the vault does not have.
type Source interface {
	// Name is for people.
	Name() string
	// Secret reads a value: CodeNotFound when there is none, CodeUnavailable when that cannot be said now. Errors hold no values.
	Secret(ctx context.Context, name string) (string, error)
}

const (
	sourceFresh = time.Minute      // how long a value of a source counts
	sourceTime  = 15 * time.Second // of reading one
	maxSourced  = 10_000           // values that are kept
)

// sources are asked in order. Values are cached for sourceFresh; of several that ask for the same, one reads.
type sources struct {
	list []Source

	mu    sync.Mutex
	cache map[string]*sourced
}

// sourced is a value; its mutex is held while it is read.
type sourced struct {
	mu    sync.Mutex
	value string
	until time.Time
}

// AddSources gives the guard sources, which are asked in order for what the vault does not have. It is called before any step runs.
func (g *Guard) AddSources(list ...Source) {
	g.sources.list = append(g.sources.list, list...)
}

// value is a secret of the vault, or else of a source.
func (g *Guard) value(ctx context.Context, execution, name string) (string, error) {
	value, err := g.Vault.Get(ctx, name)
	if stepwell.CodeOf(err) != stepwell.CodeNotFound || len(g.sources.list) == 0 {
		return value, err
	}
	return g.sourced(ctx, execution, name)
}

// sourced is a secret of a source. It is known to the redactor, in the execution and everywhere, before anybody has it.
func (g *Guard) sourced(ctx context.Context, execution, name string) (string, error) {
	s := &g.sources
	s.mu.Lock()
	one := s.cache[name]
	if one == nil {
		if s.cache == nil || len(s.cache) >= maxSourced {
			s.cache = map[string]*sourced{}
		}
		one = &sourced{}
		s.cache[name] = one
	}
	s.mu.Unlock()
	one.mu.Lock()
	defer one.mu.Unlock()
	if time.Now().After(one.until) {
		value, err := s.read(ctx, name)
		if err != nil {
			return "", err
		}
		g.Redactor.Add(value)
		one.value, one.until = value, time.Now().Add(sourceFresh)
	}
	g.Redactor.Pin(execution, one.value)
	return one.value, nil
}

// read asks the sources in order. One that cannot answer ends the search: another one's value would be a different secret.
func (s *sources) read(ctx context.Context, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, sourceTime)
	defer cancel()
	names := make([]string, len(s.list))
	for i, source := range s.list {
		names[i] = source.Name()
		value, err := source.Secret(ctx, name)
		switch {
		case err == nil:
			if err := CheckValue(value); err != nil {
				return "", sourceError(stepwell.Errorf(stepwell.CodeDenied, stepwell.HintOf(err), "the secret %q of the source %s: %s", name, names[i], err))
			}
			return value, nil
		case ctx.Err() != nil:
			return "", sourceError(stepwell.Errorf(stepwell.CodeTimeout, "", "the source %s of secrets has not answered within %s", names[i], sourceTime))
		case stepwell.CodeOf(err) != stepwell.CodeNotFound:
			return "", sourceError(err)
		}
	}
	return "", sourceError(stepwell.Errorf(stepwell.CodeNotFound, "stepwell secrets set "+name, "there is no secret %q in the vault or in %s", name, strings.Join(names, ", ")))
}

// SourceError is the failure of a source. It is no failure of the store: code that waits for the store must not take it for one.
type SourceError struct {
	failure   *stepwell.Error
	transient bool
}

func (e *SourceError) Error() string { return e.failure.Error() }
func (e *SourceError) Unwrap() error { return e.failure }

// Transient reports whether the source may answer when it is asked again.
func (e *SourceError) Transient() bool { return e.transient }

// sourceError keeps the failure of a source. What may pass is CodeFailed.
func sourceError(err error) error {
	e := &stepwell.Error{Code: stepwell.CodeOf(err), Message: err.Error(), Hint: stepwell.HintOf(err)}
	switch e.Code {
	case stepwell.CodeNotFound, stepwell.CodeDenied, stepwell.CodeInvalid:
		return &SourceError{e, false}
	}
	e.Code = stepwell.CodeFailed
	return &SourceError{e, true}
}

// credentials is `credentials`: what the parameters of type credential_ref name, read from the sources alone, so that who starts an
// execution cannot name a secret of the vault.
type credentials struct{ s *Scope }

// Attr implements expr.Object.
func (c *credentials) Attr(name string) (any, bool) {
	params, _ := c.s.Lookup("params")
	var ref any
	switch p := params.(type) {
	case map[string]any:
		ref = p[name]
	case interface{ Attr(string) (any, bool) }:
		ref, _ = p.Attr(name)
	}
	id, ok := ref.(string)
	if !ok || id == "" {
		return nil, false
	}
	if len(c.s.g.sources.list) == 0 {
		c.s.failed(sourceError(stepwell.Errorf(stepwell.CodeDenied, "name one under secrets.sources in the server's settings",
			"the credential that params.%s names cannot be read: there is no source of secrets", name)))
		return nil, false
	}
	value, err := c.s.g.sourced(context.WithoutCancel(c.s.ctx), c.s.execution, id)
	if err != nil {
		c.s.failed(err)
		return nil, false
	}
	return value, true
}
