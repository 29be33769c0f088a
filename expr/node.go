package expr

import "strconv"

// node is one compiled expression. eval is called through state.eval, which counts.
type node interface {
	eval(st *state) any
	at() base
}

// base is where a node begins in the source and how high the tree below it is.
type base struct {
	off    int
	height int
}

func (b base) at() base { return b }

// eval evaluates n. An error without a place belongs to the innermost node being evaluated, which is st.at.
func (st *state) eval(n node) any {
	outer := st.at
	st.at = n
	if st.ops--; st.ops < 0 {
		st.ops = 0
		panic(st.opsError())
	}
	var v any
	if st.watch == nil {
		v = n.eval(st)
	} else {
		v = st.follow(n)
	}
	st.at = outer
	return v
}

// need evaluates n and refuses undefined.
func (st *state) need(n node) any {
	v := st.eval(n)
	if u, ok := v.(*undefined); ok {
		panic(u.err(st))
	}
	return v
}

type constNode struct {
	base
	value any
}

func (n *constNode) eval(*state) any { return n.value }

type listNode struct {
	base
	items []node
}

func (n *listNode) eval(st *state) any {
	st.growList(len(n.items))
	out := make([]any, len(n.items))
	for i, item := range n.items {
		out[i] = st.need(item)
	}
	return out
}

type dictNode struct {
	base
	keys, values []node
}

func (n *dictNode) eval(st *state) any {
	st.grow(len(n.keys) * entrySize)
	out := make(map[string]any, len(n.keys))
	for i := range n.keys {
		k := st.need(n.keys[i])
		st.at = n.keys[i]
		key := mustOf(keyString(k))
		st.at = n
		out[key] = st.need(n.values[i])
	}
	return out
}

// keyString is a mapping key: the string itself, or a scalar as text would show it.
func keyString(k any) (string, error) {
	switch k := k.(type) {
	case string:
		return k, nil
	case int64:
		return strconv.FormatInt(k, 10), nil
	case nil, bool, float64:
		return scalarText(k), nil
	}
	return "", failf(CodeType, "%s cannot be a mapping key", typeName(k))
}

type notNode struct {
	base
	of node
}

func (n *notNode) eval(st *state) any {
	return !st.holds(n.of)
}

type signNode struct {
	base
	negative bool
	of       node
}

func (n *signNode) eval(st *state) any {
	v := st.need(n.of)
	if n.negative {
		return mustOf(negate(v))
	}
	if _, ok := number(v); !ok {
		panic(failf(CodeType, "+ needs a number, not %s", typeName(v)))
	}
	return v
}

type binaryNode struct {
	base
	op          string
	left, right node
}

func (n *binaryNode) eval(st *state) any {
	left := st.need(n.left)
	return st.arithmetic(n.op, left, st.need(n.right))
}

// concatNode is a ~ b ~ c: everything as text.
type concatNode struct {
	base
	parts []node
}

func (n *concatNode) eval(st *state) any {
	texts := make([]string, len(n.parts))
	for i, part := range n.parts {
		texts[i] = st.text(st.need(part))
	}
	return st.join(texts, "")
}

// compareNode is a < b <= c: each pair must hold, each operand is evaluated once.
type compareNode struct {
	base
	first node
	ops   []string
	rest  []node
}

func (n *compareNode) eval(st *state) any {
	left := st.soft(n.first)
	for i, op := range n.ops {
		right := st.soft(n.rest[i])
		st.at = n.rest[i]
		if !st.compare(op, left, right) {
			return false
		}
		st.at, left = n, right
	}
	return true
}

// logicNode is a and b and c, or with or; like Python it yields the deciding operand.
type logicNode struct {
	base
	or    bool
	parts []node
}

func (n *logicNode) eval(st *state) any {
	var v any
	for _, part := range n.parts {
		if v = st.soft(part); st.truth(v) == n.or {
			break
		}
	}
	return v
}

// condNode is a if test else b; without else it is undefined, as in Jinja2.
type condNode struct {
	base
	test, then, other node
}

func (n *condNode) eval(st *state) any {
	if st.holds(n.test) {
		return st.eval(n.then)
	}
	if n.other == nil {
		return &undefined{path: "the inline if without else", off: n.off}
	}
	return st.eval(n.other)
}

// callNode is a filter, a test or a global function with its arguments already matched
// to the parameters.
type callNode struct {
	base
	name   string
	fn     *function
	in     node // nil for a global function
	args   callArgs
	plan   []int
	negate bool // is not
}

func (n *callNode) eval(st *state) any {
	var in any
	if n.in != nil {
		in = st.eval(n.in)
	}
	v := st.call(n.name, n.fn, in, n.args, st.evalArgs(n.args), n.plan)
	if n.negate {
		return !truth(v)
	}
	return v
}

// methodNode is value.name(...); which method it is depends on the value.
type methodNode struct {
	base
	of   node
	name string
	args callArgs
}

func (n *methodNode) eval(st *state) any {
	of := st.need(n.of)
	fn := mustOf(st.method(of, n.name))
	plan := mustOf(n.args.match(n.name, fn))
	return st.call(n.name, fn, of, n.args, st.evalArgs(n.args), plan)
}
