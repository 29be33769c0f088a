package expr

import (
	"slices"
	"strings"
)

// Template is a compiled source: immutable, and safe for concurrent use.
type Template struct {
	src    string
	body   []stmt
	single node // the expression with the native value; nil for text
	static bool
	refs   []Ref
	word   string // a bare literal in lower case, for EvalBool; "" when it is no such thing
}

// Parse compiles text with {{ expressions }}, {% statements %} and {# comments #}. A source without any tag is always
// accepted.
func Parse(src string) (*Template, error) {
	t := &Template{src: src}
	if nextTag(src) < 0 {
		t.static = true
		t.word = literalWord(src)
		return t, nil
	}
	if len(src) > maxSource {
		return nil, failf(CodeBudget, "the template has %d bytes, more than %d", len(src), maxSource)
	}
	p := &parser{src: src}
	p.pushScope()
	t.body, _ = p.body()
	if p.err != nil {
		return nil, p.err
	}
	t.single = onlyExpression(t.body)
	t.finish(p)
	return t, nil
}

// ParseExpression compiles an expression without braces; a single {{ expression }} around
// all of it is accepted too. An empty source is a Template without an expression. The words true,
// false, yes, no, none and null alone are literals in any case, so that they work as conditions.
func ParseExpression(src string) (*Template, error) {
	trimmed := strings.TrimSpace(src)
	if trimmed == "" {
		return &Template{src: src, static: true}, nil
	}
	if strings.HasPrefix(trimmed, "{{") && strings.HasSuffix(trimmed, "}}") {
		t, err := Parse(src)
		if err == nil && t.single == nil {
			e := failf(CodeSyntax, "expected one expression, found text with several tags")
			e.Line, e.Column = 1, 1
			return nil, e
		}
		return t, err
	}
	if len(src) > maxSource {
		return nil, failf(CodeBudget, "the expression has %d bytes, more than %d", len(src), maxSource)
	}
	t := &Template{src: src, word: literalWord(src)}
	if t.word != "" {
		t.single = literalNode(t.word)
		return t, nil
	}
	p := &parser{src: src, lex: lexer{src: src}}
	p.pushScope()
	p.advance()
	t.single = p.expression()
	if p.tok.kind != tokenEnd {
		p.failf(p.tok.off, "", "expected the end of the expression, found %s", p.tok.describe())
	}
	if p.err != nil {
		return nil, p.err
	}
	t.finish(p)
	return t, nil
}

// ParseCondition compiles a condition as people write them: with tags it is a template, and
// without it is an expression. Text around a {{ }} is an error, because the comparison in
// "{{ params.env }} == 'prod'" would never be made.
func ParseCondition(src string) (*Template, error) {
	if nextTag(src) < 0 {
		return ParseExpression(src)
	}
	t, err := Parse(src)
	if err != nil || t.single != nil {
		return t, err
	}
	expression, text := false, false
	for _, s := range t.body {
		switch s := s.(type) {
		case *outputStmt:
			expression = true
		case *textStmt:
			text = text || strings.TrimSpace(s.text) != ""
		}
	}
	if expression && text {
		e := failf(CodeSyntax, "the condition has text outside {{ }}")
		e.Hint = "put the whole condition into one pair of braces"
		e.Line, e.Column = 1, 1
		return nil, e
	}
	return t, nil
}

func (t *Template) finish(p *parser) {
	p.locateRefs()
	t.refs = p.refs
}

// onlyExpression returns the expression of a body that is one {{ }} and white space.
func onlyExpression(body []stmt) node {
	var single node
	for _, s := range body {
		switch s := s.(type) {
		case *outputStmt:
			if single != nil {
				return nil
			}
			single = s.of
		case *textStmt:
			if strings.TrimSpace(s.text) != "" {
				return nil
			}
		default:
			return nil
		}
	}
	return single
}

// Static reports that there is no tag at all: the value is Source().
func (t *Template) Static() bool { return t.static }

// Source is the parsed text.
func (t *Template) Source() string { return t.src }

// Refs lists every mention of a root name in source order. Names bound by for and set, and
// calls of built-in functions, are not among them.
func (t *Template) Refs() []Ref {
	refs := slices.Clone(t.refs)
	for i := range refs {
		refs[i].Path = slices.Clone(refs[i].Path)
	}
	return refs
}

// Eval computes the template's value: the native value of a single expression, else a string. An
// undefined result is an *Error with CodeUndefined. The result may share memory with the
// scope's values and must not be modified.
func (t *Template) Eval(s Scope, l Limits) (v any, err error) {
	if t.static {
		return t.src, nil
	}
	st := t.state(s, l)
	defer recovered(st, &err)
	if t.single == nil {
		return t.text(st), nil
	}
	v = st.eval(t.single)
	switch v.(type) {
	case string, bool, int64, float64, nil:
		return v, nil
	}
	st.at = t.single
	v, _, err = st.plain(v, 0)
	must(err)
	return v, nil
}

// text renders a template of more than one expression.
func (t *Template) text(st *state) any {
	st.run(t.body)
	text := string(st.out)
	st.finished(text)
	return text
}

func (t *Template) state(s Scope, l Limits) *state {
	l = l.withDefaults()
	return &state{src: t.src, scope: s, ops: l.Ops, bytes: l.Bytes, limits: l, lib: builtins, watch: WatcherOf(s)}
}
