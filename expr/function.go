package expr

import (
	"maps"
	"math"
	"slices"
)

// function is a filter, a test, a method or a global function. in is the operand left of the bar, the is, or the dot.
type function struct {
	call   func(st *state, in any, a *args) any
	params []param
	rest   bool // takes further positional and keyword arguments
	lax    bool // accepts undefined as input and in arguments
	asks   bool // a test: accepts absent values, and in revision 1 all undefined ones
	types  typing
}

type param struct {
	name     string
	value    any // when optional
	required bool
}

func need(name string) param       { return param{name: name, required: true} }
func opt(name string, v any) param { return param{name: name, value: v} }

// library is the fixed set of names; it is reached through state so that the
// functions which take the name of another one do not refer to their own table.
type library struct {
	filters, tests, globals                 map[string]*function
	stringMethods, dictMethods, listMethods map[string]*function
}

// builtins is the library of every template. It is never modified.
var builtins = newLibrary()

func newLibrary() *library {
	l := &library{
		filters:       maps.Clone(textFilters),
		tests:         tests,
		globals:       globals,
		stringMethods: stringMethods,
		dictMethods:   dictMethods,
		listMethods:   listMethods,
	}
	for _, more := range []map[string]*function{valueFilters, listFilters, selectFilters, numberFilters} {
		maps.Copy(l.filters, more)
	}
	return l
}

// Filters are the names of all filters, in order.
func Filters() []string { return slices.Sorted(maps.Keys(builtins.filters)) }

// Tests are the names of all tests, what may stand behind is, in order.
func Tests() []string { return slices.Sorted(maps.Keys(builtins.tests)) }

func lookupFunction(kind string, table map[string]*function, name string) (*function, error) {
	if f, ok := table[name]; ok {
		return f, nil
	}
	e := failf(CodeUnknownName, "there is no %s named %s", kind, clip(name))
	e.Hint = didYouMean(name, slices.Collect(maps.Keys(table)))
	return nil, e
}

// callArgs are the arguments as written.
type callArgs struct {
	nodes []node   // positional ones, then keyword ones
	names []string // of the keyword ones
}

// match assigns the arguments to f's parameters: plan[i] is the argument of parameter i,
// or -1. Arguments beyond them are an error unless f takes them.
func (c callArgs) match(name string, f *function) ([]int, error) {
	plan := make([]int, len(f.params))
	for i := range plan {
		plan[i] = -1
	}
	positional := len(c.nodes) - len(c.names)
	for i := range min(positional, len(plan)) {
		plan[i] = i
	}
	if positional > len(plan) && !f.rest {
		return nil, failf(CodeType, "%s takes at most %d arguments", clip(name), len(plan))
	}
	for k, keyword := range c.names {
		i := slices.IndexFunc(f.params, func(p param) bool { return p.name == keyword })
		switch {
		case i < 0 && f.rest:
		case i < 0:
			e := failf(CodeType, "%s has no argument named %s", clip(name), clip(keyword))
			names := make([]string, len(f.params))
			for j, p := range f.params {
				names[j] = p.name
			}
			e.Hint = didYouMean(keyword, names)
			return nil, e
		case plan[i] >= 0:
			return nil, failf(CodeType, "%s is given the argument %s twice", clip(name), clip(keyword))
		default:
			plan[i] = positional + k
		}
	}
	for i, p := range f.params {
		if p.required && plan[i] < 0 {
			return nil, failf(CodeType, "%s needs the argument %s", clip(name), p.name)
		}
	}
	return plan, nil
}

func (st *state) evalArgs(c callArgs) []any {
	if len(c.nodes) == 0 {
		return nil
	}
	values := make([]any, len(c.nodes))
	for i, n := range c.nodes {
		values[i] = st.eval(n)
	}
	return values
}

// call runs f on evaluated arguments.
func (st *state) call(name string, f *function, in any, c callArgs, values []any, plan []int) any {
	if !f.lax {
		st.present(f, in)
		for _, v := range values {
			st.present(f, v)
		}
	}
	st.scan(in, values)
	a := args{name: name, params: f.params}
	if len(f.params) > 0 {
		a.values = make([]any, len(f.params))
		for i, p := range f.params {
			if plan[i] >= 0 {
				a.values[i] = values[plan[i]]
			} else {
				a.values[i] = p.value
			}
		}
	}
	if f.rest {
		positional := len(values) - len(c.names)
		a.rest = values[min(len(f.params), positional):positional]
		a.names, a.named = c.names, values[positional:]
	}
	return f.call(st, in, &a)
}

// present refuses an undefined value unless the function accepts it.
func (st *state) present(f *function, v any) {
	u, ok := v.(*undefined)
	if !ok || f.asks && !u.refused(st) {
		if ok {
			st.miss(u)
		}
		return
	}
	panic(u.err(st))
}

// scan charges the time to look through the strings of a call.
func (st *state) scan(in any, values []any) {
	n := 0
	if s, ok := in.(string); ok {
		n = len(s)
	}
	for _, v := range values {
		if s, ok := v.(string); ok {
			n += len(s)
		}
	}
	st.spend(n / scanned)
}

// args are a call's matched arguments.
type args struct {
	name   string
	params []param
	values []any
	rest   []any
	names  []string // keyword arguments, those of parameters too
	named  []any
}

// wrong is the error for an argument of another type.
func (a *args) wrong(i int, want string) error {
	return failf(CodeType, "%s: %s must be %s, not %s", clip(a.name), a.params[i].name, want, typeName(a.values[i]))
}

// keyword returns a further keyword argument.
func (a *args) keyword(name string) (any, bool) {
	i := slices.Index(a.names, name)
	if i < 0 {
		return nil, false
	}
	return a.named[i], true
}

func (a *args) string(i int) string {
	s, ok := a.values[i].(string)
	if !ok {
		panic(a.wrong(i, "a string"))
	}
	return s
}

// int accepts none as def.
func (a *args) int(i int, def int) int {
	switch n := a.values[i].(type) {
	case nil:
		return def
	case int64:
		return int(min(max(n, math.MinInt32), math.MaxInt32))
	case int:
		return n
	case bool:
		if n {
			return 1
		}
		return 0
	}
	panic(a.wrong(i, "an integer"))
}

func (a *args) bool(i int) bool { return truth(a.values[i]) }

// must panics with an error. An evaluation that fails panics with its *Error, because nearly every line of it may exceed
// the budget: recovered ends it.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func mustOf[T any](v T, err error) T {
	must(err)
	return v
}

// recovered is deferred by whoever begins an evaluation. An error without a place gets that of the node or statement
// at hand, if there is a state.
func recovered(st *state, err *error) {
	switch p := recover().(type) {
	case nil:
	case *Error:
		off := 0
		if *err = p; st == nil {
			return
		}
		if st.at != nil {
			off = st.at.at().off
		}
		*err = located(p, st.src, off)
	default:
		panic(p)
	}
}
