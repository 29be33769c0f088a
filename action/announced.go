package action

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/spec"
)

// Announce adds actions that run in workers elsewhere, or replaces earlier announcements of the same names, all of them
// or none. Unlike Add it may be called while the registry is in use. What Add has registered is never replaced
// (CodeConflict); a description that contradicts itself is CodeInvalid.
func (r *Registry) Announce(specs ...spec.Spec) error {
	r.announcing.Lock()
	defer r.announcing.Unlock()
	all := map[string]*registered{}
	if old := r.announced.Load(); old != nil {
		maps.Copy(all, *old)
	}
	for _, s := range specs {
		if _, taken := r.byName[s.Name]; taken || len(s.Aliases) > 0 {
			return stepwell.Errorf(stepwell.CodeConflict, "", "action %q is one of this program's own", s.Name)
		}
		params, err := compileSpec(&s)
		if err != nil {
			return err
		}
		all[s.Name] = &registered{Action: Action{Spec: s, Handler: elsewhere(s.Name)}, params: params}
	}
	r.announced.Store(&all)
	return nil
}

// Announced reports whether an action runs in workers elsewhere alone.
func (r *Registry) Announced(name string) bool {
	_, own := r.byName[name]
	return !own && r.find(name) != nil
}

// find finds an action by name or alias; nil: there is none.
func (r *Registry) find(name string) *registered {
	if a, ok := r.byName[name]; ok {
		return a
	}
	if all := r.announced.Load(); all != nil {
		return (*all)[name]
	}
	return nil
}

// all are the names without aliases, sorted.
func (r *Registry) all() []string {
	announced := r.announced.Load()
	if announced == nil {
		return r.names
	}
	return slices.Sorted(func(yield func(string) bool) {
		for _, name := range r.names {
			if !yield(name) {
				return
			}
		}
		for name := range *announced {
			if _, own := r.byName[name]; !own && !yield(name) {
				return
			}
		}
	})
}

// elsewhere stands for the handler of an announced action.
type elsewhere string

// Run implements Handler.
func (e elsewhere) Run(context.Context, *Call) (any, error) {
	return nil, Fail(stepwell.Errorf(stepwell.CodeUnavailable, "start a worker that serves it", "%s", fmt.Sprintf("the action %q runs in workers elsewhere", string(e))))
}
