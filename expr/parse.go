package expr

import "slices"

// parser compiles a source. The first mistake is kept in err and ends the input, so that
// every loop of the parser ends and no step has to check for it.
type parser struct {
	src     string
	lex     lexer
	tok     token
	err     error
	nodes   int
	nested  int
	refs    []Ref
	refOffs []int      // where refs begin; ascending
	scopes  [][]string // names bound by for and set, innermost last
}

// fail records the first mistake, at byte off, and ends the input.
func (p *parser) fail(off int, err error) {
	if p.err == nil {
		p.err = located(err, p.src, off)
	}
	p.tok = token{kind: tokenEnd, off: off}
}

func (p *parser) failf(off int, hint, format string, a ...any) {
	e := failf(CodeSyntax, format, a...)
	e.Hint = hint
	p.fail(off, e)
}

func (p *parser) advance() {
	if p.err != nil {
		return
	}
	t, err := p.lex.next()
	if err != nil {
		p.fail(t.off, err)
		return
	}
	p.tok = t
}

// peek is the token after the current one.
func (p *parser) peek() token {
	if p.err != nil {
		return p.tok
	}
	ahead := p.lex
	t, _ := ahead.next() // a mistake is reported when the parser gets there
	return t
}

func (p *parser) accept(op string) bool {
	if !p.tok.is(op) {
		return false
	}
	p.advance()
	return true
}

func (p *parser) acceptWord(w string) bool {
	if !p.tok.word(w) {
		return false
	}
	p.advance()
	return true
}

func (p *parser) expect(op string) {
	if !p.accept(op) {
		p.failf(p.tok.off, "", "expected %q, found %s", op, p.tok.describe())
	}
}

// enter guards the recursion of the parser itself.
func (p *parser) enter() {
	if p.nested++; p.nested > maxNesting {
		p.fail(p.tok.off, failf(CodeBudget, "the template nests deeper than %d levels", maxNesting))
	}
}

func (p *parser) leave() { p.nested-- }

// base makes the position and height of a node above children.
func (p *parser) base(off int, children ...node) base {
	b := base{off: off, height: 1}
	for _, c := range children {
		if c != nil {
			b.height = max(b.height, 1+c.at().height)
		}
	}
	if p.nodes++; p.nodes > maxNodes {
		p.fail(off, failf(CodeBudget, "the template has more than %d parts", maxNodes))
	}
	if b.height > maxHeight {
		p.fail(off, failf(CodeBudget, "the expression chains more than %d operations", maxHeight))
	}
	return b
}

// expression is a if b else c and everything that binds tighter.
func (p *parser) expression() node {
	p.enter()
	defer p.leave()
	first := len(p.refs)
	n := p.or()
	for p.tok.word("if") {
		off := p.tok.off
		last := len(p.refs)
		p.advance()
		test := p.or()
		p.guard(definedWhen(test, true), first, last)
		var other node
		if p.acceptWord("else") {
			start := len(p.refs)
			other = p.expression()
			p.guard(definedWhen(test, false), start, len(p.refs))
		}
		n = &condNode{base: p.base(off, n, test, other), then: n, test: test, other: other}
	}
	return n
}

// tuple is one expression, or several with commas between them as a list.
func (p *parser) tuple() node {
	n := p.expression()
	if !p.tok.is(",") {
		return n
	}
	items := []node{n}
	for p.accept(",") && p.startsExpression() {
		items = append(items, p.expression())
	}
	return &listNode{base: p.base(n.at().off, items...), items: items}
}

func (p *parser) startsExpression() bool {
	switch p.tok.kind {
	case tokenEnd:
		return false
	case tokenOp:
		return p.tok.is("(") || p.tok.is("[") || p.tok.is("{") || p.tok.is("-") || p.tok.is("+")
	}
	return !p.tok.word("if") && !p.tok.word("else") && !p.tok.word("in")
}

func (p *parser) or() node {
	first := p.and()
	if !p.tok.word("or") {
		return first
	}
	parts := []node{first}
	var tested []*pathNode
	for p.acceptWord("or") {
		tested = append(tested, definedWhen(parts[len(parts)-1], false)...)
		start := len(p.refs)
		parts = append(parts, p.and())
		p.guard(tested, start, len(p.refs))
	}
	return &logicNode{base: p.base(first.at().off, parts...), or: true, parts: parts}
}

func (p *parser) and() node {
	first := p.not()
	if !p.tok.word("and") {
		return first
	}
	parts := []node{first}
	var tested []*pathNode
	for p.acceptWord("and") {
		tested = append(tested, definedWhen(parts[len(parts)-1], true)...)
		start := len(p.refs)
		parts = append(parts, p.not())
		p.guard(tested, start, len(p.refs))
	}
	return &logicNode{base: p.base(first.at().off, parts...), parts: parts}
}

func (p *parser) not() node {
	off := p.tok.off
	if !p.tok.word("not") {
		return p.comparison()
	}
	p.enter()
	defer p.leave()
	p.advance()
	of := p.not()
	return &notNode{base: p.base(off, of), of: of}
}

func (p *parser) comparison() node {
	first := p.sum()
	var ops []string
	var rest []node
	for {
		op := ""
		switch {
		case p.tok.kind == tokenOp && slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, p.tok.text):
			op = p.tok.text
		case p.tok.word("in"):
			op = "in"
		case p.tok.word("not") && p.peek().word("in"):
			op = "not in"
			p.advance()
		case p.tok.is("="):
			p.failf(p.tok.off, "write == to compare", "unexpected =")
		}
		if op == "" {
			break
		}
		p.advance()
		ops, rest = append(ops, op), append(rest, p.sum())
	}
	if ops == nil {
		return first
	}
	return &compareNode{base: p.base(first.at().off, append(rest[:len(rest):len(rest)], first)...), first: first, ops: ops, rest: rest}
}

// chain parses operand (op operand)* with left association.
func (p *parser) chain(operand func() node, ops ...string) node {
	left := operand()
	for p.tok.kind == tokenOp && slices.Contains(ops, p.tok.text) {
		op := p.tok.text
		p.advance()
		right := operand()
		left = &binaryNode{base: p.base(left.at().off, left, right), op: op, left: left, right: right}
	}
	return left
}

func (p *parser) sum() node { return p.chain(p.concat, "+", "-") }

func (p *parser) concat() node {
	first := p.product()
	if !p.tok.is("~") {
		return first
	}
	parts := []node{first}
	for p.accept("~") {
		parts = append(parts, p.product())
	}
	return &concatNode{base: p.base(first.at().off, parts...), parts: parts}
}

func (p *parser) product() node { return p.chain(p.power, "*", "/", "//", "%") }

// power associates to the left, as Jinja2 does and Python does not.
func (p *parser) power() node {
	return p.chain(func() node { return p.unary(true) }, "**")
}

// unary is a sign or a primary with its postfix. As in Jinja2 a filter applies to the signed value: -1 | abs is 1.
func (p *parser) unary(filters bool) node {
	p.enter()
	defer p.leave()
	off := p.tok.off
	var n node
	if p.tok.is("-") || p.tok.is("+") {
		negative := p.tok.is("-")
		p.advance()
		of := p.unary(false)
		n = &signNode{base: p.base(off, of), negative: negative, of: of}
		if c, ok := of.(*constNode); ok {
			if v, err := negate(c.value); err == nil && negative {
				n = &constNode{base: n.at(), value: v}
			}
		}
	} else {
		n = p.primary()
	}
	n = p.postfix(n)
	if filters {
		n = p.filters(n)
	}
	return n
}

func (p *parser) primary() node {
	t := p.tok
	switch t.kind {
	case tokenNumber:
		p.advance()
		return &constNode{base: p.base(t.off), value: t.value}
	case tokenString:
		p.advance()
		text := t.text
		for p.tok.kind == tokenString { // adjacent strings are one
			text += p.tok.text
			p.advance()
		}
		return &constNode{base: p.base(t.off), value: text}
	case tokenName:
		return p.name()
	case tokenOp:
		switch t.text {
		case "(":
			return p.parenthesis()
		case "[":
			return p.list()
		case "{":
			return p.dict()
		}
	}
	p.failf(t.off, "", "expected a value, found %s", t.describe())
	return &constNode{base: base{off: t.off}}
}

func (p *parser) name() node {
	t := p.tok
	p.advance()
	switch t.text {
	case "true", "True":
		return &constNode{base: p.base(t.off), value: true}
	case "false", "False":
		return &constNode{base: p.base(t.off), value: false}
	case "none", "None":
		return &constNode{base: p.base(t.off)}
	case "and", "or", "not", "in", "is", "if", "else":
		p.failf(t.off, "", "expected a value, found the word %s", t.text)
	}
	n := &pathNode{base: p.base(t.off), root: t.text, ref: -1}
	if fn, ok := builtins.globals[t.text]; ok && p.tok.is("(") && !p.local(t.text) {
		return p.finishCall(&callNode{base: n.base, name: t.text, fn: fn}, p.arguments())
	}
	if !p.local(t.text) {
		n.ref = len(p.refs)
		p.refs = append(p.refs, Ref{Path: []string{t.text}})
		p.refOffs = append(p.refOffs, t.off)
	}
	return n
}

func (p *parser) parenthesis() node {
	off := p.tok.off
	p.expect("(")
	if p.accept(")") {
		return &listNode{base: p.base(off)}
	}
	n := p.tuple()
	p.expect(")")
	return n
}

func (p *parser) list() node {
	off := p.tok.off
	p.expect("[")
	var items []node
	for !p.tok.is("]") && p.err == nil {
		items = append(items, p.expression())
		if !p.accept(",") {
			break
		}
	}
	p.expect("]")
	return &listNode{base: p.base(off, items...), items: items}
}

func (p *parser) dict() node {
	off := p.tok.off
	p.expect("{")
	n := &dictNode{}
	for !p.tok.is("}") && p.err == nil {
		n.keys = append(n.keys, p.expression())
		p.expect(":")
		n.values = append(n.values, p.expression())
		if !p.accept(",") {
			break
		}
	}
	p.expect("}")
	n.base = p.base(off, slices.Concat(n.keys, n.values)...)
	return n
}
