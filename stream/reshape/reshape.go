// Package reshape has the stream modules that change items by what the pipeline says, without knowing what
// the items are: stream.map, stream.filter and stream.dedupe.
//
// Templates and conditions are compiled when a step is opened. For each item they see the names of the step
// and `item`, of which only what they name is looked at. The modules and their configs are stable.
package reshape

import (
	"errors"

	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream"
)

// Modules are the modules of this package.
func Modules() []stream.Module {
	return []stream.Module{mapModule(), filterModule(), dedupeModule()}
}

// scope is the template scope of one item.
type scope struct {
	item  *item.Value
	under expr.Scope // of the step; nil: nothing
}

// Lookup implements expr.Scope.
func (s *scope) Lookup(name string) (any, bool) {
	if name == "item" {
		return s.item, true
	}
	if s.under == nil {
		return nil, false
	}
	return s.under.Lookup(name)
}

// Watcher forwards the step's.
func (s *scope) Watcher() expr.Watcher { return expr.WatcherOf(s.under) }

// Keys lists the names, for hints in errors.
func (s *scope) Keys() []string {
	names := []string{"item"}
	if keyed, ok := s.under.(interface{ Keys() []string }); ok {
		names = append(names, keyed.Keys()...)
	}
	return names
}

// badConfig makes one error of a config's problems, nil of none.
func badConfig(problems []error) error {
	if err := errors.Join(problems...); err != nil {
		return &stream.Error{Type: stream.ConfigurationError, Err: err}
	}
	return nil
}
