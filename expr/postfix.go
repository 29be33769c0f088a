package expr

import (
	"slices"
	"strconv"
)

// postfix parses the parts directly after a value: .name, [index], [a:b] and calls.
func (p *parser) postfix(n node) node {
	for p.err == nil {
		switch {
		case p.tok.is("."):
			p.advance()
			n = p.attribute(n)
		case p.tok.is("["):
			n = p.subscript(n)
		case p.tok.is("("):
			p.failf(p.tok.off, "", "this is not a function")
			if path, ok := n.(*pathNode); ok && len(path.keys) == 0 {
				names := make([]string, 0, len(builtins.globals))
				for name := range builtins.globals {
					names = append(names, name)
				}
				e := failf(CodeUnknownName, "there is no function named %s", clip(path.root))
				e.Hint = didYouMean(path.root, names)
				p.err = located(e, p.src, path.off)
			}
		default:
			return n
		}
	}
	return n
}

func (p *parser) attribute(n node) node {
	t := p.tok
	switch {
	case t.kind == tokenName:
		p.advance()
		if p.tok.is("(") {
			return p.methodCall(n, t)
		}
		return p.extend(n, t.off, pathKey{text: t.text, dotted: true})
	case t.kind == tokenNumber:
		i, ok := t.value.(int64)
		if !ok {
			break
		}
		p.advance()
		return p.extend(n, t.off, indexKey(i))
	}
	p.failf(t.off, `a name with other characters is written ["…"]`, "expected a name after the dot, found %s", t.describe())
	return n
}

func indexKey(i int64) pathKey {
	return pathKey{text: strconv.FormatInt(i, 10), index: int(i), isIndex: true}
}

// extend adds a constant key: to the path itself when n is one, so that it stays one node.
func (p *parser) extend(n node, off int, key pathKey) node {
	path, ok := n.(*pathNode)
	if !ok {
		return &attrNode{base: p.base(n.at().off, n), of: n, key: key}
	}
	path.keys = append(path.keys, key)
	if p.nodes++; p.nodes > maxNodes || len(path.keys) > maxHeight {
		p.fail(off, failf(CodeBudget, "the path has more than %d parts", maxHeight))
	}
	if path.ref >= 0 {
		p.refs[path.ref].Path = append(p.refs[path.ref].Path, key.text)
	}
	return path
}

func (p *parser) methodCall(n node, name token) node {
	args := p.arguments()
	if !builtins.isMethod(name.text) {
		_, err := lookupFunction("method", builtins.methodNames(), name.text)
		p.fail(name.off, err)
	}
	return &methodNode{base: p.base(n.at().off, append(slices.Clone(args.nodes), n)...), of: n, name: name.text, args: args}
}

func (p *parser) subscript(n node) node {
	off := p.tok.off
	p.expect("[")
	var low, high, step node
	if !p.tok.is(":") {
		low = p.tuple()
	}
	if !p.tok.is(":") {
		p.expect("]")
		return p.index(n, low, off)
	}
	p.advance()
	if !p.tok.is(":") && !p.tok.is("]") {
		high = p.expression()
	}
	if p.accept(":") && !p.tok.is("]") {
		step = p.expression()
	}
	p.expect("]")
	return &sliceNode{base: p.base(n.at().off, n, low, high, step), of: n, low: low, high: high, step: step}
}

func (p *parser) index(n, index node, off int) node {
	if c, ok := index.(*constNode); ok {
		switch v := c.value.(type) {
		case string:
			return p.extend(n, off, pathKey{text: v})
		case int64:
			return p.extend(n, off, indexKey(v))
		}
	}
	if path, ok := n.(*pathNode); ok && path.ref >= 0 {
		p.refs[path.ref].Dynamic = true
	}
	return &indexNode{base: p.base(n.at().off, n, index), of: n, index: index}
}

// arguments parses (a, b, name=c).
func (p *parser) arguments() callArgs {
	var c callArgs
	p.expect("(")
	for !p.tok.is(")") && p.err == nil {
		if p.tok.is("*") || p.tok.is("**") {
			p.failf(p.tok.off, "", "arguments cannot be unpacked with %s", p.tok.text)
		}
		if p.tok.kind == tokenName && p.peek().is("=") {
			c.names = append(c.names, p.tok.text)
			p.advance()
			p.advance()
		} else if len(c.names) > 0 {
			p.failf(p.tok.off, "", "a positional argument follows a named one")
		}
		c.nodes = append(c.nodes, p.expression())
		if !p.accept(",") {
			break
		}
	}
	p.expect(")")
	return c
}

// finishCall matches the arguments to the parameters, so that mistakes show without data.
func (p *parser) finishCall(n *callNode, args callArgs) node {
	children := slices.Clone(args.nodes)
	if n.in != nil {
		children = append(children, n.in)
	}
	n.base = p.base(n.off, children...)
	n.args = args
	plan, err := args.match(n.name, n.fn)
	if err != nil {
		p.fail(n.off, err)
	}
	n.plan = plan
	p.checkNested(n)
	return n
}

// checkNested refuses map('uper') and select('evn') at once when the name is constant.
func (p *parser) checkNested(n *callNode) {
	position, table, kind := 0, builtins.tests, "test"
	switch n.name {
	case "map":
		table, kind = builtins.filters, "filter"
	case "select", "reject":
	case "selectattr", "rejectattr":
		position = 1
	default:
		return
	}
	if n.fn != builtins.filters[n.name] || len(n.args.nodes)-len(n.args.names) <= position {
		return
	}
	c, ok := n.args.nodes[position].(*constNode)
	if !ok {
		return
	}
	name, ok := c.value.(string)
	if !ok {
		return
	}
	if _, err := lookupFunction(kind, table, name); err != nil {
		p.fail(c.off, err)
	}
}

// filters parses | filter and is test, any number of them.
func (p *parser) filters(n node) node {
	tested := false
	for p.err == nil {
		switch {
		case p.tok.is("|"):
			n = p.filter(n)
		case p.tok.word("is"):
			if tested {
				p.failf(p.tok.off, "combine tests with and", "a test cannot follow a test")
			}
			tested = true
			n = p.test(n)
		default:
			return n
		}
	}
	return n
}

func (p *parser) filter(n node) node {
	p.advance()
	t := p.tok
	if t.kind != tokenName {
		p.failf(t.off, "", "expected the name of a filter, found %s", t.describe())
		return n
	}
	p.advance()
	fn, err := lookupFunction("filter", builtins.filters, t.text)
	if err != nil {
		p.fail(t.off, err)
		return n
	}
	if t.text == "default" || t.text == "d" {
		p.guardNode(n)
	}
	var args callArgs
	if p.tok.is("(") {
		args = p.arguments()
	}
	return p.finishCall(&callNode{base: base{off: t.off}, name: t.text, fn: fn, in: n}, args)
}

func (p *parser) test(n node) node {
	p.advance()
	negate := p.acceptWord("not")
	t := p.tok
	if t.kind != tokenName {
		p.failf(t.off, "", "expected the name of a test, found %s", t.describe())
		return n
	}
	p.advance()
	fn, err := lookupFunction("test", builtins.tests, t.text)
	if err != nil {
		p.fail(t.off, err)
		return n
	}
	if t.text == "defined" || t.text == "undefined" {
		p.guardNode(n)
	}
	var args callArgs
	switch {
	case p.tok.is("("):
		args = p.arguments()
	case p.startsTestArgument():
		args.nodes = []node{p.postfix(p.primary())}
	}
	return p.finishCall(&callNode{base: base{off: t.off}, name: t.text, fn: fn, in: n, negate: negate}, args)
}

// startsTestArgument: x is divisibleby 3 may be written without parentheses.
func (p *parser) startsTestArgument() bool {
	switch p.tok.kind {
	case tokenString, tokenNumber:
		return true
	case tokenOp:
		return p.tok.is("[") || p.tok.is("{")
	case tokenName:
		return !slices.Contains([]string{"and", "or", "else", "if", "is", "in", "not"}, p.tok.text)
	}
	return false
}
