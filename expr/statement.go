package expr

import "slices"

// statement parses the rest of {% name … %} and, for a block, everything up to its end.
func (p *parser) statement(name token) stmt {
	switch name.text {
	case "if":
		return p.ifStatement()
	case "for":
		return p.forStatement()
	case "set":
		return p.setStatement()
	case "elif", "else", "endif", "endfor", "endset", "endraw":
		p.failf(name.off, "", "%s stands outside its block", name.text)
		return nil
	}
	known := []string{"if", "for", "set", "raw", "elif", "else", "endif", "endfor", "endset", "endraw"}
	e := failf(CodeSyntax, "the tag %s is not supported", clip(name.text))
	if e.Hint = didYouMean(name.text, known); e.Hint == "" {
		e.Hint = "there are if, for, set and raw"
	}
	p.fail(name.off, e)
	return nil
}

func (p *parser) ifStatement() stmt {
	n := &ifStmt{}
	end := "elif"
	for end == "elif" && p.err == nil {
		test := p.tuple()
		p.closeTag()
		var body []stmt
		start := len(p.refs)
		body, end = p.body("elif", "else", "endif")
		p.guard(definedWhen(test, true), start, len(p.refs))
		n.tests, n.bodies = append(n.tests, test), append(n.bodies, body)
	}
	if end == "else" {
		p.closeTag()
		start := len(p.refs)
		n.other, _ = p.body("endif")
		for _, test := range n.tests {
			p.guard(definedWhen(test, false), start, len(p.refs))
		}
	}
	p.closeTag()
	return n
}

func (p *parser) forStatement() stmt {
	n := &forStmt{base: base{off: p.tok.off}, targets: p.targets()}
	if !p.acceptWord("in") {
		p.failf(p.tok.off, "", "expected in, found %s", p.tok.describe())
	}
	n.over = p.or()
	if p.tok.is(",") {
		items := []node{n.over}
		for p.accept(",") && p.startsExpression() {
			items = append(items, p.or())
		}
		n.over = &listNode{base: p.base(n.over.at().off, items...), items: items}
	}
	p.pushScope(n.targets...)
	if p.acceptWord("if") {
		n.filter = p.expression()
	}
	p.declare("loop")
	if p.tok.word("recursive") {
		p.failf(p.tok.off, "", "recursive loops are not supported")
	}
	p.closeTag()
	var end string
	n.body, end = p.body("else", "endfor")
	p.popScope()
	if end == "else" {
		p.closeTag()
		p.pushScope()
		n.other, _ = p.body("endfor")
		p.popScope()
	}
	p.closeTag()
	return n
}

// targets parses the names that for and set bind.
func (p *parser) targets() []string {
	var names []string
	parenthesis := p.accept("(")
	for {
		t := p.tok
		if t.kind != tokenName || slices.Contains([]string{"true", "false", "none", "True", "False", "None",
			"and", "or", "not", "in", "is", "if", "else", "loop"}, t.text) {
			p.failf(t.off, "", "expected a name to assign to, found %s", t.describe())
			break
		}
		names = append(names, t.text)
		p.advance()
		if p.tok.is(".") {
			p.failf(p.tok.off, "", "only a plain name can be assigned to")
		}
		if !p.accept(",") {
			break
		}
	}
	if parenthesis {
		p.expect(")")
	}
	return names
}

func (p *parser) setStatement() stmt {
	n := &setStmt{base: base{off: p.tok.off}, targets: p.targets()}
	if p.accept("=") {
		n.value = p.tuple()
		p.closeTag()
	} else {
		if p.tok.is("|") || len(n.targets) != 1 {
			p.failf(p.tok.off, "", "expected =, found %s", p.tok.describe())
		}
		p.closeTag()
		p.pushScope()
		n.body, _ = p.body("endset")
		p.popScope()
		p.closeTag()
	}
	p.declare(n.targets...)
	return n
}

type textStmt struct{ text string }

func (s *textStmt) run(st *state) { st.write(s.text) }

type outputStmt struct{ of node }

func (s *outputStmt) run(st *state) {
	outer, v := st.at, st.need(s.of)
	st.at = s.of
	st.write(st.text(v))
	st.at = outer
}

func (st *state) run(body []stmt) {
	for _, s := range body {
		st.spend(1)
		s.run(st)
	}
}

type ifStmt struct {
	tests  []node
	bodies [][]stmt
	other  []stmt
}

func (s *ifStmt) run(st *state) {
	for i, test := range s.tests {
		if st.holds(test) {
			st.run(s.bodies[i])
			return
		}
	}
	st.run(s.other)
}

type setStmt struct {
	base
	targets []string
	value   node   // {% set x = value %}
	body    []stmt // {% set x %}body{% endset %}
}

func (s *setStmt) run(st *state) {
	if s.value != nil {
		outer, v := st.at, st.eval(s.value)
		st.at = s
		st.assign(s.targets, v)
		st.at = outer
		return
	}
	outer, locals := st.out, st.locals
	st.out = nil
	st.run(s.body)
	captured := st.out
	st.out, st.locals = outer, locals
	st.grow(2 * len(captured))
	st.assign(s.targets, string(captured))
}

// assign binds v to one name, or its elements to several.
func (st *state) assign(targets []string, v any) {
	if len(targets) == 1 {
		st.bind(targets[0], v)
		return
	}
	values := st.unpack(len(targets), v)
	for i, name := range targets {
		st.bind(name, values[i])
	}
}

// unpack returns exactly n elements of v.
func (st *state) unpack(n int, v any) []any {
	items := st.elements(v)
	if len(items) != n {
		panic(failf(CodeValue, "%d names cannot take %d values", n, len(items)))
	}
	st.growList(n)
	values := make([]any, n)
	for i, item := range items {
		values[i] = mustOf(st.norm(item))
	}
	return values
}

type forStmt struct {
	base
	targets []string
	over    node
	filter  node // nil without if
	body    []stmt
	other   []stmt
}

func (s *forStmt) run(st *state) {
	outer, locals, v := st.at, st.locals, st.need(s.over)
	st.at = s.over
	items := st.elements(v)
	st.at = s
	if s.filter != nil {
		items = s.keep(st, items)
	}
	if len(items) == 0 {
		st.at = outer
		st.run(s.other)
		return
	}
	l := &loop{items: items}
	st.bind("loop", l)
	slots := s.slots(st)
	for l.index = range items {
		st.locals = slots
		s.element(st, items[l.index])
		st.run(s.body)
	}
	st.at, st.locals = outer, locals
}

// slots makes the bindings of the loop's names, which every round fills anew.
func (s *forStmt) slots(st *state) *binding {
	for _, name := range s.targets {
		st.locals = &binding{name: name, next: st.locals}
	}
	return st.locals
}

// element puts one element of the loop into the innermost slots.
func (s *forStmt) element(st *state, item any) {
	st.spend(1)
	values := []any{mustOf(st.norm(item))}
	if len(s.targets) > 1 {
		values = st.unpack(len(s.targets), values[0])
	}
	slot := st.locals
	for i := len(values) - 1; i >= 0; i-- {
		slot.value = values[i]
		slot = slot.next
	}
}

func (s *forStmt) keep(st *state, items []any) []any {
	st.growList(len(items))
	locals := st.locals
	kept := make([]any, 0, len(items))
	slots := s.slots(st)
	for _, item := range items {
		st.locals = slots
		s.element(st, item)
		if st.holds(s.filter) {
			kept = append(kept, item)
		}
	}
	st.locals = locals
	return kept
}
