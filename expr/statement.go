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
	n := &forStmt{off: p.tok.off, targets: p.targets()}
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
	n := &setStmt{off: p.tok.off, targets: p.targets()}
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

func (s *textStmt) run(st *state) error { return st.write(s.text) }

type outputStmt struct{ of node }

func (s *outputStmt) run(st *state) error {
	v, err := st.need(s.of)
	if err != nil {
		return err
	}
	text, err := st.text(v)
	if err != nil {
		return located(err, st.src, s.of.at().off)
	}
	return located(st.write(text), st.src, s.of.at().off)
}

func (st *state) run(body []stmt) error {
	for _, s := range body {
		if err := st.spend(1); err != nil {
			return err
		}
		if err := s.run(st); err != nil {
			return err
		}
	}
	return nil
}

type ifStmt struct {
	tests  []node
	bodies [][]stmt
	other  []stmt
}

func (s *ifStmt) run(st *state) error {
	for i, test := range s.tests {
		if holds, err := st.holds(test); err != nil {
			return err
		} else if holds {
			return st.run(s.bodies[i])
		}
	}
	return st.run(s.other)
}

type setStmt struct {
	off     int
	targets []string
	value   node   // {% set x = value %}
	body    []stmt // {% set x %}body{% endset %}
}

func (s *setStmt) run(st *state) error {
	if s.value != nil {
		v, err := st.eval(s.value)
		if err != nil {
			return err
		}
		return located(st.assign(s.targets, v), st.src, s.off)
	}
	outer, locals := st.out, st.locals
	st.out = nil
	err := st.run(s.body)
	captured := st.out
	st.out, st.locals = outer, locals
	if err == nil {
		err = st.grow(2 * len(captured))
	}
	if err != nil {
		return err
	}
	return st.assign(s.targets, string(captured))
}

// assign binds v to one name, or its elements to several.
func (st *state) assign(targets []string, v any) error {
	if len(targets) == 1 {
		return st.bind(targets[0], v)
	}
	values, err := st.unpack(len(targets), v)
	if err != nil {
		return err
	}
	for i, name := range targets {
		if err := st.bind(name, values[i]); err != nil {
			return err
		}
	}
	return nil
}

// unpack returns exactly n elements of v.
func (st *state) unpack(n int, v any) ([]any, error) {
	items, err := st.elements(v)
	if err != nil {
		return nil, err
	}
	if len(items) != n {
		return nil, failf(CodeValue, "%d names cannot take %d values", n, len(items))
	}
	if err := st.growList(n); err != nil {
		return nil, err
	}
	values := make([]any, n)
	for i, item := range items {
		if values[i], err = st.norm(item); err != nil {
			return nil, err
		}
	}
	return values, nil
}

type forStmt struct {
	off     int
	targets []string
	over    node
	filter  node // nil without if
	body    []stmt
	other   []stmt
}

func (s *forStmt) run(st *state) error {
	v, err := st.need(s.over)
	if err != nil {
		return err
	}
	items, err := st.elements(v)
	if err != nil {
		return located(err, st.src, s.over.at().off)
	}
	if s.filter != nil {
		if items, err = s.keep(st, items); err != nil {
			return err
		}
	}
	locals := st.locals
	defer func() { st.locals = locals }()
	if len(items) == 0 {
		return st.run(s.other)
	}
	l := &loop{items: items}
	if err := st.bind("loop", l); err != nil {
		return err
	}
	slots := s.slots(st)
	for l.index = range items {
		st.locals = slots
		if err := s.element(st, items[l.index]); err != nil {
			return err
		}
		if err := st.run(s.body); err != nil {
			return located(err, st.src, s.off)
		}
	}
	return nil
}

// slots makes the bindings of the loop's names, which every round fills anew.
func (s *forStmt) slots(st *state) *binding {
	for _, name := range s.targets {
		st.locals = &binding{name: name, next: st.locals}
	}
	return st.locals
}

// element puts one element of the loop into the innermost slots.
func (s *forStmt) element(st *state, item any) error {
	err := st.spend(1)
	if err == nil {
		item, err = st.norm(item)
	}
	values := []any{item}
	if err == nil && len(s.targets) > 1 {
		values, err = st.unpack(len(s.targets), item)
	}
	if err != nil {
		return located(err, st.src, s.off)
	}
	slot := st.locals
	for i := len(values) - 1; i >= 0; i-- {
		slot.value = values[i]
		slot = slot.next
	}
	return nil
}

func (s *forStmt) keep(st *state, items []any) ([]any, error) {
	if err := st.growList(len(items)); err != nil {
		return nil, located(err, st.src, s.off)
	}
	locals := st.locals
	defer func() { st.locals = locals }()
	kept := make([]any, 0, len(items))
	slots := s.slots(st)
	for _, item := range items {
		st.locals = slots
		if err := s.element(st, item); err != nil {
			return nil, err
		}
		if holds, err := st.holds(s.filter); err != nil {
			return nil, err
		} else if holds {
			kept = append(kept, item)
		}
	}
	return kept, nil
}
