package expr

// Watcher follows values through templates: a value derived from a secret is a secret too. It may be called by any
// goroutine that evaluates with its Scope.
type Watcher interface {
	// Marked reports whether a value that a name stands for is, or holds, one to be followed.
	Marked(v any) bool
	// Derived gets every text, number, list and mapping that an expression makes of a marked value.
	Derived(v any)
}

// Watched is a Scope with a Watcher. A Scope that wraps one forwards its Watcher.
type Watched interface {
	Watcher() Watcher // nil: none
}

// WatcherOf is the Watcher of a Scope, nil if it has none.
func WatcherOf(s Scope) Watcher {
	if w, ok := s.(Watched); ok {
		return w.Watcher()
	}
	return nil
}

// shortPiece is the length in bytes below which a piece means nothing but as part of a text.
const shortPiece = 8

// follow evaluates a node and reports values derived from marked ones to the watcher, except yes, no and small
// numbers, such as a length.
func (st *state) follow(n node) any {
	before := st.marked
	defer func() { st.marked = st.marked || before }()
	st.marked = false
	v := n.eval(st)
	if st.marked {
		if st.marked = followed(v); st.marked {
			st.watch.Derived(v)
		}
	} else if _, leaf := n.(*pathNode); leaf {
		st.marked = st.watch.Marked(v)
	}
	st.pieces = st.pieces || st.marked && isPiece(v)
	return v
}

// isPiece reports whether a value is too short to be known on its own, or may be taken apart into such.
func isPiece(v any) bool {
	switch v := v.(type) {
	case string:
		return len(v) < shortPiece
	case []any, map[string]any:
		return true
	}
	return false
}

func followed(v any) bool {
	switch v := v.(type) {
	case bool, nil, *undefined:
		return false
	case int64:
		return v <= -100_000 || v >= 100_000
	}
	return true
}

// finished reports a text assembled from pieces that are too short on their own.
func (st *state) finished(text string) {
	if st.pieces {
		st.watch.Derived(text)
	}
}
