package action

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/spec"
)

// Action is a handler with its description.
type Action struct {
	Spec    spec.Spec
	Handler Handler
}

// Of makes an action of a function. The tags of P describe the parameters and those of O the outputs, as
// spec.FieldsOf reads them; run gets the parameters checked, completed and set.
func Of[P, O any](s spec.Spec, run func(ctx context.Context, call *Call, p P) (*O, error)) Action {
	s.Params, s.Outputs = spec.FieldsOf[P](), spec.FieldsOf[O]()
	return Action{Spec: s, Handler: HandlerFunc(func(ctx context.Context, call *Call) (any, error) {
		var p P
		if err := call.Bind(&p); err != nil {
			return nil, err
		}
		out, err := run(ctx, call, p)
		if out == nil || err != nil {
			return nil, err
		}
		return out, nil
	})}
}

// Checked adds rules of the parameters that tags cannot state. They are asked when a pipeline is validated, where values
// with templates are left out, and again before each attempt.
func Checked[P any](a Action, rules func(p P) []error) Action {
	a.Handler = &checked{a.Handler, func(params map[string]any, bind func(map[string]any, any) error) []error {
		var p P
		if err := bind(params, &p); err != nil {
			return []error{Fail(err)}
		}
		return rules(p)
	}}
	return a
}

type checked struct {
	Handler
	rules func(params map[string]any, bind func(map[string]any, any) error) []error
}

// Validate implements Validator.
func (c *checked) Validate(params map[string]any) []error { return c.rules(params, spec.BindTemplated) }

// Run implements Handler.
func (c *checked) Run(ctx context.Context, call *Call) (any, error) {
	if problems := c.rules(call.Params, spec.Bind); len(problems) > 0 {
		return nil, Fail(errors.Join(problems...))
	}
	return c.Handler.Run(ctx, call)
}

// Registry is a set of actions by name. It is a value that its owner fills before use; afterwards
// it is read by many goroutines and changed by Announce alone.
type Registry struct {
	// Spread says that streams run on several machines, each with folders of its own: what package definition asks for with
	// IsSpread. Defaults to one machine.
	Spread bool

	byName map[string]*registered
	names  []string

	announcing sync.Mutex
	announced  atomic.Pointer[map[string]*registered] // never changed, but replaced; nil: none
}

// IsSpread reports Spread.
func (r *Registry) IsSpread() bool { return r.Spread }

type registered struct {
	Action
	params *spec.Checker
}

// Add registers actions in order and stops at the first that it refuses: one without a handler, with
// a name or alias that is taken (CodeConflict), or with a Spec that contradicts itself (CodeInvalid,
// see compileSpec). Nothing of a refused action is registered.
func (r *Registry) Add(actions ...Action) error {
	if r.byName == nil {
		r.byName = map[string]*registered{}
	}
	for _, a := range actions {
		if err := r.add(a); err != nil {
			return err
		}
	}
	return nil
}

func (r *Registry) add(a Action) error {
	if a.Handler == nil {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("action %q has no handler", a.Spec.Name)}
	}
	params, err := compileSpec(&a.Spec)
	if err != nil {
		return err
	}
	names := append([]string{a.Spec.Name}, a.Spec.Aliases...)
	for i, name := range names {
		if _, taken := r.byName[name]; taken || slices.Contains(names[:i], name) {
			return &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf("action %q is registered twice", name)}
		}
	}
	_, a.Spec.Cancels = a.Handler.(Canceler)
	entry := &registered{Action: a, params: params}
	for _, name := range names {
		r.byName[name] = entry
	}
	at, _ := slices.BinarySearch(r.names, a.Spec.Name)
	r.names = slices.Insert(r.names, at, a.Spec.Name)
	return nil
}

// Lookup finds an action by name or alias.
func (r *Registry) Lookup(name string) (*Action, bool) {
	a := r.find(name)
	if a == nil {
		return nil, false
	}
	return &a.Action, true
}

// Params checks and completes the parameters of an action, found by name or alias, by its Spec. It
// was prepared by Add, and is never nil when the action is known.
func (r *Registry) Params(name string) (*spec.Checker, bool) {
	a := r.find(name)
	if a == nil {
		return nil, false
	}
	return a.params, true
}

// Spec finds the description of an action by name or alias.
func (r *Registry) Spec(name string) (*spec.Spec, bool) {
	a := r.find(name)
	if a == nil {
		return nil, false
	}
	return &a.Spec, true
}

// Names are the registered names without aliases, sorted.
func (r *Registry) Names() []string { return slices.Clone(r.all()) }

// Specs are the descriptions of all actions, sorted by name.
func (r *Registry) Specs() []spec.Spec {
	names := r.all()
	specs := make([]spec.Spec, 0, len(names))
	for _, name := range names {
		if a := r.find(name); a != nil {
			specs = append(specs, a.Spec)
		}
	}
	return specs
}

// Validate asks the action's Validator, if it is one, about parameters that contain no template
// (budpipeline §3.3 "validate"). It does not check them against the Spec. An unknown action is the
// one problem CodeNotFound.
func (r *Registry) Validate(name string, params map[string]any) []error {
	a := r.find(name)
	if a == nil {
		return []error{r.unknown(name)}
	}
	v, ok := a.Handler.(Validator)
	if !ok {
		return nil
	}
	return v.Validate(params)
}

// ValidateWhole is Validate for parameters of which none is left out for its template: what is missing is a problem too.
func (r *Registry) ValidateWhole(name string, params map[string]any) []error {
	if a := r.find(name); a != nil {
		if v, ok := a.Handler.(WholeValidator); ok {
			return v.ValidateWhole(params)
		}
	}
	return r.Validate(name, params)
}

// Complete fills in a spawned step: Action from Name, and from the action's Spec the DependsOn of a step that names
// none (nil; an empty list means none on purpose) and the Key of a step that has the Spec's KeyParam among its params
// (pipeline-steps "BaseStep" and "Parameterized step key"). A step without a name is CodeInvalid, an unknown action
// CodeNotFound.
func (r *Registry) Complete(s NewStep) (NewStep, error) {
	if s.Name == "" {
		return s, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "a spawned step has no name"}
	}
	if s.Action == "" {
		s.Action = s.Name
	}
	a := r.find(s.Action)
	if a == nil {
		return s, fmt.Errorf("spawned step %s: %w", s.StepKey(), r.unknown(s.Action))
	}
	if s.DependsOn == nil {
		s.DependsOn = slices.Clone(a.Spec.DependsOn)
	}
	if value, ok := s.Params[a.Spec.KeyParam]; ok && s.Key == "" && value != nil {
		s.Key = fmt.Sprint(value)
	}
	return s, nil
}

func (r *Registry) unknown(name string) error {
	hint := cmp.Or(spec.DidYouMean(name, slices.Concat(r.all(), slices.Sorted(maps.Keys(r.byName)))), "stepwell actions lists the known ones")
	return stepwell.Errorf(stepwell.CodeNotFound, hint, "unknown action %q", name)
}
