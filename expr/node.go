package expr

import "strconv"

// node is one compiled expression. eval is called through state.eval, which counts.
type node interface {
	eval(st *state) (any, error)
	at() base
}

// base is where a node begins in the source and how high the tree below it is.
type base struct {
	off    int
	height int
}

func (b base) at() base { return b }

func (st *state) eval(n node) (any, error) {
	if st.ops--; st.ops < 0 {
		st.ops = 0
		return nil, located(st.opsError(), st.src, n.at().off)
	}
	var v any
	var err error
	if st.watch == nil {
		v, err = n.eval(st)
	} else {
		v, err = st.follow(n)
	}
	if err != nil {
		return nil, located(err, st.src, n.at().off)
	}
	return v, nil
}

// need evaluates n and refuses undefined.
func (st *state) need(n node) (any, error) {
	v, err := st.eval(n)
	if u, ok := v.(*undefined); ok && err == nil {
		return nil, u.err(st)
	}
	return v, err
}

type constNode struct {
	base
	value any
}

func (n *constNode) eval(*state) (any, error) { return n.value, nil }

type listNode struct {
	base
	items []node
}

func (n *listNode) eval(st *state) (any, error) {
	if err := st.growList(len(n.items)); err != nil {
		return nil, err
	}
	out := make([]any, len(n.items))
	for i, item := range n.items {
		v, err := st.need(item)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

type dictNode struct {
	base
	keys, values []node
}

func (n *dictNode) eval(st *state) (any, error) {
	if err := st.grow(len(n.keys) * entrySize); err != nil {
		return nil, err
	}
	out := make(map[string]any, len(n.keys))
	for i := range n.keys {
		k, err := st.need(n.keys[i])
		if err != nil {
			return nil, err
		}
		key, err := keyString(k)
		if err != nil {
			return nil, located(err, st.src, n.keys[i].at().off)
		}
		if out[key], err = st.need(n.values[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
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

func (n *notNode) eval(st *state) (any, error) {
	holds, err := st.holds(n.of)
	return !holds, err
}

type signNode struct {
	base
	negative bool
	of       node
}

func (n *signNode) eval(st *state) (any, error) {
	v, err := st.need(n.of)
	if err != nil {
		return nil, err
	}
	if n.negative {
		return negate(v)
	}
	if _, ok := number(v); !ok {
		return nil, failf(CodeType, "+ needs a number, not %s", typeName(v))
	}
	return v, nil
}

type binaryNode struct {
	base
	op          string
	left, right node
}

func (n *binaryNode) eval(st *state) (any, error) {
	a, err := st.need(n.left)
	if err != nil {
		return nil, err
	}
	b, err := st.need(n.right)
	if err != nil {
		return nil, err
	}
	return st.arithmetic(n.op, a, b)
}

// concatNode is a ~ b ~ c: everything as text.
type concatNode struct {
	base
	parts []node
}

func (n *concatNode) eval(st *state) (any, error) {
	texts := make([]string, len(n.parts))
	for i, part := range n.parts {
		v, err := st.need(part)
		if err != nil {
			return nil, err
		}
		if texts[i], err = st.text(v); err != nil {
			return nil, err
		}
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

func (n *compareNode) eval(st *state) (any, error) {
	left, err := st.soft(n.first)
	if err != nil {
		return nil, err
	}
	for i, op := range n.ops {
		right, err := st.soft(n.rest[i])
		if err != nil {
			return nil, err
		}
		ok, err := st.compare(op, left, right)
		if err != nil {
			return nil, located(err, st.src, n.rest[i].at().off)
		}
		if !ok {
			return false, nil
		}
		left = right
	}
	return true, nil
}

// logicNode is a and b and c, or with or; like Python it yields the deciding operand.
type logicNode struct {
	base
	or    bool
	parts []node
}

func (n *logicNode) eval(st *state) (any, error) {
	var v any
	for _, part := range n.parts {
		var err error
		if v, err = st.soft(part); err != nil {
			return nil, err
		}
		holds, err := st.truth(v)
		if err != nil {
			return nil, err
		}
		if holds == n.or {
			break
		}
	}
	return v, nil
}

// condNode is a if test else b; without else it is undefined, as in Jinja2.
type condNode struct {
	base
	test, then, other node
}

func (n *condNode) eval(st *state) (any, error) {
	if holds, err := st.holds(n.test); err != nil {
		return nil, err
	} else if holds {
		return st.eval(n.then)
	}
	if n.other == nil {
		return &undefined{path: "the inline if without else", off: n.off}, nil
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

func (n *callNode) eval(st *state) (any, error) {
	var in any
	if n.in != nil {
		var err error
		if in, err = st.eval(n.in); err != nil {
			return nil, err
		}
	}
	values, err := st.evalArgs(n.args)
	if err != nil {
		return nil, err
	}
	v, err := st.call(n.name, n.fn, in, n.args, values, n.plan)
	if err == nil && n.negate {
		return !truth(v), nil
	}
	return v, err
}

// methodNode is value.name(...); which method it is depends on the value.
type methodNode struct {
	base
	of   node
	name string
	args callArgs
}

func (n *methodNode) eval(st *state) (any, error) {
	of, err := st.need(n.of)
	if err != nil {
		return nil, err
	}
	fn, err := st.method(of, n.name)
	if err != nil {
		return nil, err
	}
	plan, err := n.args.match(n.name, fn)
	if err != nil {
		return nil, err
	}
	values, err := st.evalArgs(n.args)
	if err != nil {
		return nil, err
	}
	return st.call(n.name, fn, of, n.args, values, plan)
}
