package secret

import (
	"context"
	"reflect"
	"sync"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
)

// Scope opens sealed values for a step's templates (expr.Scope, expr.Watched). It is safe for concurrent use.
type Scope struct {
	ctx       context.Context // for its values only: the scope does not depend on cancellation
	g         *Guard
	execution string
	under     expr.Scope
	secrets   bool

	mu   sync.Mutex
	err  error
	seen map[string]any // values by name, opened
}

// Err is why something could not be opened, nil if everything could.
func (s *Scope) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Lookup implements expr.Scope.
func (s *Scope) Lookup(name string) (any, bool) {
	if name == "secrets" && s.secrets {
		return &root{s}, true
	}
	if name == "credentials" && s.secrets {
		return &credentials{s}, true
	}
	s.mu.Lock()
	v, ok := s.seen[name]
	s.mu.Unlock()
	if ok {
		return v, true
	}
	if v, ok = s.under.Lookup(name); !ok {
		return nil, false
	}
	opened := s.open(v)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = map[string]any{}
	}
	s.seen[name] = opened
	return opened, true
}

// Keys lists the names, for hints in errors.
func (s *Scope) Keys() []string {
	var names []string
	if keyed, ok := s.under.(interface{ Keys() []string }); ok {
		names = keyed.Keys()
	}
	if s.secrets {
		names = append(names, "secrets")
	}
	return names
}

// Watcher implements expr.Watched.
func (s *Scope) Watcher() expr.Watcher { return watcher{s.g.Redactor, s.execution} }

func (s *Scope) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

// open opens a value; objects with lazy attributes are opened on access.
func (s *Scope) open(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return s.g.opened.of(s, v)
	case expr.Object:
		return s.object(v)
	}
	out, err := s.g.sealer.OpenValue(s.execution, v)
	if err != nil {
		s.failed(err)
		return nil
	}
	return out
}

func (s *Scope) object(under expr.Object) expr.Object {
	o := &object{s: s, under: under}
	if keyed, ok := under.(interface{ Keys() []string }); ok {
		return &keyedObject{object: o, keyed: keyed}
	}
	return o
}

// object is an expr.Object whose attributes are opened.
type object struct {
	s     *Scope
	under expr.Object

	mu  sync.Mutex
	raw map[string]expr.Raw // opened, so that it is decoded once
}

// Attr implements expr.Object.
func (o *object) Attr(name string) (any, bool) {
	v, ok := o.under.Attr(name)
	if !ok {
		return nil, false
	}
	raw, isRaw := v.(expr.Raw)
	if !isRaw {
		return o.s.open(v), true
	}
	if !Sealed(raw) {
		return raw, true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if opened, ok := o.raw[name]; ok {
		return opened, true
	}
	opened, ok := o.s.open(raw).(expr.Raw)
	if !ok {
		return nil, true // the scope says why
	}
	if o.raw == nil {
		o.raw = map[string]expr.Raw{}
	}
	o.raw[name] = opened
	return opened, true
}

// Lacks implements expr.Partial.
func (o *object) Lacks(attribute, member string) *expr.Absent {
	if p, ok := o.under.(expr.Partial); ok {
		return p.Lacks(attribute, member)
	}
	return nil
}

// keyedObject is an object that can be iterated.
type keyedObject struct {
	*object
	keyed interface{ Keys() []string }
}

// Keys lists the attributes.
func (o *keyedObject) Keys() []string { return o.keyed.Keys() }

// root is `secrets`.
type root struct{ s *Scope }

// Attr implements expr.Object.
func (r *root) Attr(name string) (any, bool) {
	value, err := r.s.g.value(context.WithoutCancel(r.s.ctx), r.s.execution, name)
	if err != nil {
		if stepwell.CodeOf(err) != stepwell.CodeNotFound {
			r.s.failed(err)
		}
		return nil, false
	}
	return value, true
}

// Keys lists the names of the secrets, for hints in errors.
func (r *root) Keys() []string { return r.s.g.Vault.Names() }

// Advice is the hint for a secret that does not exist.
func (r *root) Advice(name string) string { return "set it with `stepwell secrets set " + name + "`" }

// watcher follows secrets through the templates of one execution.
type watcher struct {
	redact    *Redactor
	execution string
}

// Marked implements expr.Watcher.
func (w watcher) Marked(v any) bool {
	switch v.(type) {
	case *root, *credentials:
		return true
	}
	if !w.redact.Active(w.execution) {
		return false
	}
	return !texts(v, func(text string) bool { return !w.redact.Knows(w.execution, text) })
}

// Derived implements expr.Watcher.
func (w watcher) Derived(v any) {
	texts(v, func(text string) bool { w.redact.Learn(w.execution, text); return true })
}

// cache keeps opened mappings: the parameters of an execution are the same one for all of its steps. It is bounded.
type cache struct {
	mu   sync.Mutex
	ring [64]cached
	next int
}

type cached struct {
	execution string
	under     map[string]any // held, so that its address stays its own
	opened    any
}

func (c *cache) of(s *Scope, m map[string]any) any {
	at := reflect.ValueOf(m).Pointer()
	c.mu.Lock()
	for i := range c.ring {
		if one := &c.ring[i]; one.under != nil && reflect.ValueOf(one.under).Pointer() == at && one.execution == s.execution {
			opened := one.opened
			c.mu.Unlock()
			return opened
		}
	}
	c.mu.Unlock()
	opened, err := s.g.sealer.OpenValue(s.execution, m)
	if err != nil {
		s.failed(err)
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ring[c.next] = cached{s.execution, m, opened}
	c.next = (c.next + 1) % len(c.ring)
	return opened
}
