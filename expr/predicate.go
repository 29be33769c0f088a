package expr

import (
	"encoding/json"
	"strings"
)

// tests are the names allowed after is.
var tests = map[string]*function{
	"defined":   {types: typing{gives: BoolKind}, lax: true, call: func(_ *state, in any, _ *args) any { return !isUndefined(in) }},
	"undefined": {types: typing{gives: BoolKind}, lax: true, call: func(_ *state, in any, _ *args) any { return isUndefined(in) }},
	"none":      {types: typing{gives: BoolKind}, asks: true, call: isNone},
	"boolean":   typeTest(func(v any) bool { _, ok := v.(bool); return ok }),
	"true":      typeTest(func(v any) bool { return v == true }),
	"false":     typeTest(func(v any) bool { return v == false }),
	"string":    typeTest(func(v any) bool { _, ok := v.(string); return ok }),
	"number":    typeTest(func(v any) bool { _, ok := number(v); return ok }),
	"integer":   typeTest(isInteger),
	"float":     typeTest(func(v any) bool { _, ok := v.(float64); return ok }),
	"mapping":   typeTest(isMapping),
	"sequence":  typeTest(isSequence),
	"iterable":  typeTest(isSequence),
	"callable":  typeTest(func(any) bool { return false }),
	"odd":       {types: typing{gives: BoolKind}, call: parityTest(1)},
	"even":      {types: typing{gives: BoolKind}, call: parityTest(0)},
	"lower":     caseTest(strings.ToLower, strings.ToUpper),
	"upper":     caseTest(strings.ToUpper, strings.ToLower),
	"in": {types: typing{gives: BoolKind}, asks: true, params: []param{need("container")}, call: func(st *state, in any, a *args) any {
		return st.compare("in", in, a.values[0])
	}},
	"sameas": {types: typing{gives: BoolKind}, asks: true, params: []param{need("other")}, call: func(st *state, in any, a *args) any {
		if typeName(in) != typeName(a.values[0]) {
			return false
		}
		return st.equal(in, a.values[0], 0)
	}},
	"divisibleby": {types: typing{gives: BoolKind}, params: []param{need("num")}, call: func(st *state, in any, a *args) any {
		n, _ := number(st.arithmetic("%", in, a.values[0]))
		return n.float() == 0
	}},
	"startswith": {types: typing{takes: TextKind, gives: BoolKind}, params: []param{need("prefix")}, call: onStrings(affixMethod(strings.HasPrefix))},
	"endswith":   {types: typing{takes: TextKind, gives: BoolKind}, params: []param{need("suffix")}, call: onStrings(affixMethod(strings.HasSuffix))},
	"match":      {types: typing{gives: BoolKind}, params: []param{need("pattern")}, call: testMatch},
	"search":     {types: typing{gives: BoolKind}, params: []param{need("pattern")}, call: testSearch},
	"eq":         compareTest("=="), "equalto": compareTest("=="), "ne": compareTest("!="),
	"lt": compareTest("<"), "lessthan": compareTest("<"), "le": compareTest("<="),
	"gt": compareTest(">"), "greaterthan": compareTest(">"), "ge": compareTest(">="),
}

func typeTest(holds func(v any) bool) *function {
	return &function{asks: true, types: typing{gives: BoolKind}, call: func(_ *state, in any, _ *args) any { return holds(in) }}
}

// isNone treats absent as null.
func isNone(st *state, in any, _ *args) any {
	u, ok := in.(*undefined)
	return in == nil || ok && u.isAbsent() && !st.old()
}

func isInteger(v any) bool {
	switch v.(type) {
	case int64, json.Number:
		return true
	}
	return false
}

func isMapping(v any) bool {
	switch v.(type) {
	case map[string]any:
		return true
	case *loop:
		return false
	case Object:
		return true
	}
	return false
}

func isSequence(v any) bool {
	switch v.(type) {
	case string, []any, map[string]any, keyed:
		return true
	}
	return false
}

func parityTest(want int64) func(*state, any, *args) any {
	return func(st *state, in any, _ *args) any {
		v := st.arithmetic("%", in, int64(2))
		return st.equal(v, want, 0)
	}
}

// caseTest is Python's isupper and islower: all letters in that case, and at least one.
func caseTest(same, other func(string) string) *function {
	return &function{types: typing{gives: BoolKind}, call: func(st *state, in any, _ *args) any {
		s := st.text(in)
		st.growText(s)
		return s == same(s) && s != other(s)
	}}
}

func onStrings(f func(*state, any, *args) any) func(*state, any, *args) any {
	return func(st *state, in any, a *args) any {
		if _, ok := in.(string); !ok {
			panic(failf(CodeType, "%s needs a string, not %s", a.name, typeName(in)))
		}
		return f(st, in, a)
	}
}

func compareTest(op string) *function {
	return &function{asks: true, types: typing{gives: BoolKind}, params: []param{need("other")}, call: func(st *state, in any, a *args) any {
		return st.compare(op, in, a.values[0])
	}}
}
