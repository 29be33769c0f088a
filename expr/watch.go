package expr

// Watcher follows values through templates, for those who must know what becomes of them: what is made of a secret
// is a secret too. It may be called by any goroutine that evaluates with its Scope.
type Watcher interface {
	// Marked reports whether a value that a name stands for is, or holds, one to be followed.
	Marked(v any) bool
	// Derived is told of every text, number, list and mapping that an expression makes of a marked value.
	Derived(v any)
}

// Watched is a Scope whose evaluations are followed. A Scope that is put around one forwards its Watcher.
type Watched interface {
	Watcher() Watcher // nil: nobody follows
}

// WatcherOf is the Watcher of a Scope, nil if it has none.
func WatcherOf(s Scope) Watcher {
	if w, ok := s.(Watched); ok {
		return w.Watcher()
	}
	return nil
}

// follow evaluates a node and tells the watcher of what is made of marked values. What can be told by yes or no is
// not followed.
func (st *state) follow(n node) (any, error) {
	before := st.marked
	st.marked = false
	v, err := n.eval(st)
	switch {
	case err != nil:
	case st.marked:
		switch v.(type) {
		case bool, nil, *undefined:
			st.marked = false
		default:
			st.watch.Derived(v)
		}
	default:
		if _, leaf := n.(*pathNode); leaf {
			st.marked = st.watch.Marked(v)
		}
	}
	st.everMarked = st.everMarked || st.marked
	st.marked = st.marked || before
	return v, err
}

// finished tells the watcher of a text that a marked value went into.
func (st *state) finished(text string) {
	if st.everMarked {
		st.watch.Derived(text)
	}
}
