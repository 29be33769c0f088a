package expr

import (
	"slices"

	"github.com/stepwell/stepwell/expr/jsonvalue"
)

// Limits bounds one evaluation. With the defaults every template ends, well or with CodeBudget, within about 100 ms
// and 10 MB of allocation on a slow core; the Scope's own values, and their decoding, come on top.
type Limits struct {
	// Ops is the number of steps: one for each node visited and each element looped
	// over or built, one for every 8 values compared, copied out or rendered. Defaults to 500,000.
	Ops int
	// Bytes is the size of all strings and lists built during the evaluation, output
	// included, intermediate ones too. Defaults to 4 MiB.
	Bytes int
	// Depth is how deep expressions and values may nest. Defaults to 256, as with Decode and Marshal.
	Depth int
	// Revision is that of the rules to evaluate by: 1, or 2. Defaults to the latest.
	Revision int
}

// Revision is the latest revision of the rules. Each difference of revision 1 is in one place of the package, a
// caller of state.old.
const Revision = 2

const (
	defaultOps   = 500_000
	defaultBytes = 4 << 20

	maxSource  = 256 << 10 // bytes of a source that has tags
	maxNodes   = 50_000    // nodes of one template
	maxNesting = 100       // brackets, operators and blocks inside each other
	maxHeight  = 250       // height of the tree, operator chains included

	scanned     = 64 // how many bytes of a string can be looked at for one step
	elementSize = 24 // charged for a list element: interface and boxed number
	bindingSize = 48 // charged for a name
	entrySize   = 64 // charged for a mapping entry
)

func (l Limits) withDefaults() Limits {
	if l.Ops <= 0 {
		l.Ops = defaultOps
	}
	if l.Bytes <= 0 {
		l.Bytes = defaultBytes
	}
	if l.Depth <= 0 {
		l.Depth = jsonvalue.MaxDepth
	}
	if l.Revision <= 0 {
		l.Revision = Revision
	}
	return l
}

// state is one evaluation: its scope, its local names and the rest of its budget.
type state struct {
	src    string
	at     interface{ at() base } // the node being evaluated, the statement being run; nil: the whole template
	scope  Scope
	locals *binding
	ops    int
	bytes  int
	walked int
	limits Limits
	lib    *library
	out    []byte
	raws   map[rawKey]any
	regex  map[string]*pattern

	absent *undefined // the first that a condition took for false

	watch  Watcher // nil: none
	marked bool    // a marked value went into the node that is being evaluated
	pieces bool    // short ones were made of marked values
}

// old reports whether the rules are those of revision 1, in which undefined is false in a condition, and int and
// float give 0 for a value that is no number.
func (st *state) old() bool { return st.limits.Revision == 1 }

// binding is a name bound by for or set; inner bindings hide outer ones.
type binding struct {
	name  string
	value any
	next  *binding
}

func (st *state) bind(name string, v any) {
	st.locals = &binding{name: name, value: v, next: st.locals}
	st.grow(bindingSize)
}

// spend takes n steps from the budget.
func (st *state) spend(n int) {
	if n > st.ops {
		st.ops = 0
		panic(st.opsError())
	}
	st.ops -= n
}

func (st *state) opsError() error {
	e := failf(CodeBudget, "the template takes more than %d steps", st.limits.Ops)
	e.Hint = "loop over less data, or move the work into a step"
	return e
}

// walk accounts for looking at one existing value: cheap, but a small template can
// make a list that holds itself 2^30 times over, so it must not be free.
func (st *state) walk() {
	if st.walked++; st.walked&7 == 0 {
		st.spend(1)
	}
}

// grow takes n bytes from the budget before they are allocated.
func (st *state) grow(n int) {
	if n > st.bytes || n < 0 {
		st.bytes = 0
		e := failf(CodeBudget, "the template builds more than %d bytes", st.limits.Bytes)
		e.Hint = "pass large data by reference"
		panic(e)
	}
	st.bytes -= n
}

// growList charges a list of n elements that is about to be built.
func (st *state) growList(n int) {
	if n < 0 || n > st.limits.Bytes {
		n = st.limits.Bytes // avoids overflow below; still far over the budget
	}
	st.grow(n * elementSize)
	st.spend(n)
}

func (st *state) deeper(depth int) {
	if depth > st.limits.Depth {
		panic(failf(CodeBudget, "a value nests deeper than %d levels", st.limits.Depth))
	}
}

// write appends to the output.
func (st *state) write(s string) {
	st.grow(len(s))
	st.out = appendText(st.out, s)
}

// appendText is append with a growth of two for large buffers too, so that all copies together
// cost at most twice the final size.
func appendText(b []byte, s string) []byte {
	if len(b)+len(s) > cap(b) {
		b = slices.Grow(b, max(len(s), len(b), 64))
	}
	return append(b, s...)
}
