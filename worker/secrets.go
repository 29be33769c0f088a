package worker

import (
	"sync"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/secret"
	"github.com/stepwell/stepwell/store"
)

// opened is what a handler and the templates get of a task: with everything that is sealed put back.
type opened struct {
	state []byte
	once  sync.Once
	scope expr.Scope
	guard *secret.Scope // in scope; nil: nothing is sealed
}

// open makes ready what the handler gets, before parameters are rendered.
func (p *Pool) open(j *job) (err error) {
	j.opened.state = j.task.State
	if p.o.Secrets == nil {
		return nil
	}
	if j.opened.state, err = p.o.Secrets.Open(j.task.Execution, j.task.State); err != nil {
		return sealError(err)
	}
	return nil
}

// scope is what the step's templates see. It is made when the first of them looks: many steps have none.
func (p *Pool) scope(j *job) expr.Scope {
	j.opened.once.Do(func() {
		t := j.task
		j.opened.scope = expr.Vars(nil)
		if t.Scope != nil {
			j.opened.scope = t.Scope
		}
		if p.o.Secrets != nil {
			j.opened.guard = p.o.Secrets.Scope(j.ctx, t.Execution, j.opened.scope, t.Step.Secrets)
			j.opened.scope = j.opened.guard
		}
	})
	return j.opened.scope
}

// unopened is why a template, which has asked for the scope, could not see something.
func (j *job) unopened() error {
	if j.opened.guard == nil {
		return nil
	}
	if err := j.opened.guard.Err(); err != nil {
		return sealError(err)
	}
	return nil
}

func sealError(err error) error {
	code := stepwell.CodeFailed
	if store.IsAway(err) {
		code = stepwell.CodeUnavailable
	}
	return &stepwell.Error{Code: code, Message: "what the step needs is sealed", Err: err, Hint: stepwell.HintOf(err)}
}

// hide takes secrets out of a text that is recorded or shown.
func (j *job) hide(p *Pool, text string) string { return p.o.Secrets.Text(j.task.Execution, text) }

// seal takes secrets out of JSON that comes back to a handler or a template.
func (j *job) seal(p *Pool, raw []byte) []byte { return p.o.Secrets.Seal(j.task.Execution, raw) }

// Watcher lets what templates make of secrets be known.
func (l layered) Watcher() expr.Watcher { return expr.WatcherOf(l.under) }

// Keys lists the names, for hints in errors.
func (l layered) Keys() []string {
	var names []string
	if keyed, ok := l.under.(interface{ Keys() []string }); ok {
		names = keyed.Keys()
	}
	for name := range l.extra {
		names = append(names, name)
	}
	return names
}
