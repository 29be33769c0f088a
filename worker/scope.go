package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/store"
)

// Secrets seals secrets in records, and opens them for steps that may read them. It is safe for concurrent use.
type Secrets interface {
	// Text hides secrets in a text that is shown, JSON in JSON.
	Text(execution, text string) string
	JSON(execution string, raw []byte) []byte
	// Seal takes secrets out of JSON that comes back to a handler or a template, Open puts them back.
	Seal(execution string, raw []byte) []byte
	Open(execution string, raw []byte) ([]byte, error)
	// Scope holds a step's values for templates: those of under, opened, and `secrets` when the step may read them. A
	// method Err() error, if it has one, returns after a use the reason that a value could not be opened.
	Scope(ctx context.Context, execution string, under expr.Scope, secrets bool) expr.Scope
}

// noSecrets is for pools without secrets.
type noSecrets struct{}

func (noSecrets) Text(_, text string) string                { return text }
func (noSecrets) JSON(_ string, raw []byte) []byte          { return raw }
func (noSecrets) Seal(_ string, raw []byte) []byte          { return raw }
func (noSecrets) Open(_ string, raw []byte) ([]byte, error) { return raw, nil }
func (noSecrets) Scope(_ context.Context, _ string, under expr.Scope, _ bool) expr.Scope {
	return under
}

// openState opens the state of the previous call.
func (a *attempt) openState() (err error) {
	if a.State, err = a.r.o.Secrets.Open(a.Task.Execution, a.Task.State); err != nil {
		return sealError(err)
	}
	return nil
}

// templateScope holds the values for the step's templates. It is made on first use: many steps have no templates.
func (a *attempt) templateScope() expr.Scope {
	a.opening.Do(func() {
		var under expr.Scope = expr.Vars(nil)
		if a.Task.Scope != nil {
			under = a.Task.Scope
		}
		a.scope = a.r.o.Secrets.Scope(a.ctx, a.Task.Execution, under, a.Task.Step.Secrets)
		a.scope, a.unset = a.withSettings(a.scope)
	})
	return a.scope
}

// withSettings adds the step's settings, rendered: templates in a value that a setting has read are never evaluated.
func (a *attempt) withSettings(under expr.Scope) (expr.Scope, error) {
	if a.Task.Step.Settings == nil {
		return under, nil
	}
	settings, err := a.Task.Step.Settings.Render(under, a.Task.Limits)
	if err != nil {
		return under, fmt.Errorf("settings: %w", err)
	}
	return expr.Layered{Extra: map[string]any{"settings": settings}, Under: under}, nil
}

// scopeError is the reason that a template could not read a value, nil if there is none.
func (a *attempt) scopeError() error {
	if s, ok := a.scope.(interface{ Err() error }); ok && s.Err() != nil {
		return sealError(s.Err())
	}
	return nil
}

// sourceError is the failure of a source of secrets outside.
type sourceError interface {
	error
	Transient() bool // it may answer when it is asked again
}

// passes reports whether an attempt that could not be prepared may be repeated: it asked a source of secrets outside.
func passes(err error) bool {
	e, ok := errors.AsType[sourceError](err)
	return ok && e.Transient()
}

func sealError(err error) error {
	code := stepwell.CodeFailed
	if _, ok := errors.AsType[sourceError](err); ok {
		return err
	}
	if store.IsAway(err) {
		code = stepwell.CodeUnavailable
	}
	return &stepwell.Error{Code: code, Message: "what the step needs is sealed", Err: err, Hint: stepwell.HintOf(err)}
}

func (a *attempt) hide(text string) string { return a.r.o.Secrets.Text(a.Task.Execution, text) }

func (a *attempt) seal(raw []byte) []byte { return a.r.o.Secrets.Seal(a.Task.Execution, raw) }
