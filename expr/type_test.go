package expr

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// has reports whether a value is of the type.
func (t *Type) has(v any) bool {
	of := typeOf(v, 0)
	if of.Kinds&t.Kinds == 0 {
		return false
	}
	if s, ok := v.(string); ok && t.Words != nil {
		return slices.Contains(t.Words, s)
	}
	if b, ok := v.(bool); ok && t.Kinds == BoolKind && t.Fixed != Varies {
		return b == (t.Fixed == AlwaysTrue)
	}
	return true
}

// judge infers a template's type and compares it with what an evaluation gives.
func judge(t *testing.T, src string, tmpl *Template, scope Vars) (failed, found bool) {
	t.Helper()
	kinds, problems := tmpl.Type(func(name string) *Type {
		if v, ok := scope[name]; ok {
			return TypeOf(v)
		}
		return nil
	})
	v, err := tmpl.Eval(scope, Limits{})
	certain := slices.ContainsFunc(problems, func(p TypeProblem) bool { return !p.Maybe && p.Kind != NeverEqual && p.Kind != MayBeAbsent })
	if err == nil && certain {
		t.Errorf("%s gives %v, but: %v", src, v, problems)
	}
	if err == nil && !kinds.has(v) {
		t.Errorf("%s gives %#v, which is not %s %v %v", src, v, kinds.Kinds, kinds.Words, kinds.Fixed)
	}
	return err != nil, certain
}

// TestTypesHold: what Type says of the golden cases, and of 8,000 combinations of them, is true of their values. An error is
// reported only where the evaluation fails.
func TestTypesHold(t *testing.T) {
	scope, cases := readGolden(t)
	var parts []string
	failed, found := 0, 0
	count := func(f, s bool) {
		if f {
			failed++
		}
		if f && s {
			found++
		}
	}
	for _, c := range cases {
		parse := Parse
		if c.Kind == "expression" {
			parse = ParseExpression
		}
		tmpl, err := parse(c.Template)
		if err != nil {
			continue
		}
		count(judge(t, c.Template, tmpl, scope))
		if c.Kind == "expression" && len(c.Template) < 60 {
			parts = append(parts, c.Template)
		}
	}
	shapes := []string{"(%s) + (%s)", "(%s) - (%s)", "(%s) * (%s)", "(%s) %% (%s)", "(%s) == (%s)", "(%s) != (%s)", "(%s) < (%s)", "(%s) in (%s)", "(%s) ~ (%s)",
		"(%s) and (%s)", "(%s) or (%s)", "(%s) if (%s) else 1", "[%s, %s][0]", "{'a': %s, 'b': %s}.b", "(%s) | default(%s)", "(%s)[%s]", "not (%s) or (%s)", "{%% if %s %%}{{ %s }}{%% endif %%}",
		"{%% for x in %s %%}{{ x + (%s) }}{%% endfor %%}", "{%% set x = %s %%}{{ x ~ (%s) }}"}
	for _, name := range []string{"length", "first", "join", "abs", "round", "sort", "keys", "upper", "int", "float", "items", "sum", "fromjson", "flatten", "reverse", "unique | list", "max"} {
		shapes = append(shapes, "(%s) | "+name+" == (%s)")
	}
	shapes = append(shapes, "(%s).upper() ~ (%s)", "(%s).split() ~ (%s)", "(%s).items() ~ (%s)", "(%s).nosuch ~ (%s)", "(%s) is startswith(%s)", "(%s)[1:2] ~ (%s)", "-(%s) + (%s)")
	rng := rand.New(rand.NewPCG(17, 0))
	for range 8_000 {
		src := fmt.Sprintf(shapes[rng.IntN(len(shapes))], parts[rng.IntN(len(parts))], parts[rng.IntN(len(parts))])
		parse := ParseExpression
		if strings.Contains(src, "{%") {
			parse = Parse
		}
		if tmpl, err := parse(src); err == nil {
			count(judge(t, src, tmpl, scope))
		}
	}
	t.Logf("%d of %d failing evaluations are found beforehand", found, failed)
	if found*2 < failed {
		t.Errorf("only %d of %d failing evaluations are found beforehand", found, failed)
	}
}

// TestEveryFunctionHasAType keeps the tables complete.
func TestEveryFunctionHasAType(t *testing.T) {
	for kind, table := range map[string]map[string]*function{"filter": builtins.filters, "test": builtins.tests, "function": builtins.globals,
		"string method": builtins.stringMethods, "list method": builtins.listMethods, "mapping method": builtins.dictMethods} {
		for name, f := range table {
			if f.types.gives == 0 && f.types.like == nil {
				t.Errorf("the %s %s does not say what it gives", kind, name)
			}
		}
	}
	for _, op := range []string{"+", "-", "*", "/", "//", "%", "**"} {
		if _, ok := arithmeticKinds[op]; !ok {
			t.Errorf("the operator %s does not say what it takes", op)
		}
	}
}

// TestTypeProblems are mistakes that need no values, and their places.
func TestTypeProblems(t *testing.T) {
	root := func(name string) *Type {
		if name != "p" {
			return nil
		}
		return &Type{Kinds: MapKind, Closed: true, Members: map[string]*Type{
			"n": kind(IntKind), "s": kind(TextKind), "region": {Kinds: TextKind, Words: []string{"eu", "us"}},
			"key": {Kinds: TextKind, Secret: true}, "maybe": {Kinds: TextKind | AbsentKind}, "list": {Kinds: ListKind, Element: kind(TextKind)},
		}}
	}
	for src, want := range map[string]string{
		"a {{ p.n + p.s }}":                             "1:6 1 false",
		"{{ p.nosuch }}":                                "1:4 0 false",
		"{{ p.nosuch | default(1) }}":                   "1:4 0 true",
		"{{ p.s.x }}":                                   "1:4 0 false",
		"{{ p.n | join }}":                              "1:10 2 false",
		"{{ p.region == 'asia' }}":                      "1:4 4 false",
		"{{ p.region in ['asia', 'af'] }}":              "1:4 4 false",
		"{{ 'asia' == p.region }}":                      "1:14 4 false",
		"{{ p.n == '1' }}":                              "1:4 4 false",
		"{{ p.s < 3 }}":                                 "1:4 1 false",
		"{{ p.maybe }}!":                                "1:4 3 false",
		"\n  {{ p.maybe | upper }}":                     "2:6 3 false",
		"{{ p.s.items() }}":                             "1:4 2 false",
		"{% for x in p.n %}{% endfor %}":                "1:13 2 false",
		"{{ p.n + p.s if p.n is string else 0 }}":       "1:4 1 true",
		"{{ p.maybe | default('') }}":                   "",
		"{% if p.maybe %}{{ p.maybe }}{% endif %}":      "",
		"{{ q.anything.at.all + 1 }}":                   "",
		"{{ p.list | first ~ p.n }}":                    "",
		"{{ (p.region if p.n else 'asia') == 'asia' }}": "",
		"{% set x = 1 %}{% if p.n %}{% set x = 'a' %}{% endif %}{{ x + 1 }}": "",
	} {
		tmpl, err := Parse(src)
		if err != nil {
			t.Fatal(src, err)
		}
		_, problems := tmpl.Type(root)
		var got []string
		for _, p := range problems {
			got = append(got, fmt.Sprintf("%d:%d %d %v", p.Line, p.Column, p.Kind, p.Maybe))
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("%s: %s, not %s (%v)", src, strings.Join(got, "; "), want, problems)
		}
	}
	for src, want := range map[string]bool{"{{ p.key }}": true, "x {{ p.key | upper }}": true, "{{ [p.key] }}": true, "{{ {'a': p.key} | tojson }}": true,
		"{{ p.key | length }}": false, "{{ p.key == 'a' }}": false, "{{ p.s if p.key else '' }}": false, "{% set k = p.key %}{{ k }}": true, "{{ p.n }}": false} {
		tmpl, err := Parse(src)
		if err != nil {
			t.Fatal(src, err)
		}
		if of, _ := tmpl.Type(root); of.Secret != want {
			t.Errorf("%s: secret is %v", src, of.Secret)
		}
	}
}
