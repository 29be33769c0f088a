package expr

import (
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// stringMethods are the methods of strings.
var stringMethods = map[string]*function{
	"upper":      textFilter(strings.ToUpper),
	"lower":      textFilter(strings.ToLower),
	"capitalize": textFilter(capitalize),
	"title":      textFilter(func(s string) string { return mapWords(s, func(c rune) bool { return !unicode.IsLetter(c) }) }),
	"strip":      {types: typing{gives: TextKind}, call: stripMethod(strings.TrimSpace, strings.Trim), params: []param{opt("chars", nil)}},
	"lstrip": {types: typing{gives: TextKind}, call: stripMethod(func(s string) string { return strings.TrimLeftFunc(s, unicode.IsSpace) }, strings.TrimLeft),
		params: []param{opt("chars", nil)}},
	"rstrip": {types: typing{gives: TextKind}, call: stripMethod(func(s string) string { return strings.TrimRightFunc(s, unicode.IsSpace) }, strings.TrimRight),
		params: []param{opt("chars", nil)}},
	"split":      {types: typing{like: texts}, call: methodSplit, params: []param{opt("sep", nil), opt("maxsplit", -1)}},
	"rsplit":     {types: typing{like: texts}, call: methodRsplit, params: []param{opt("sep", nil), opt("maxsplit", -1)}},
	"splitlines": {types: typing{like: texts}, call: methodSplitlines, params: []param{opt("keepends", false)}},
	"replace":    {types: typing{gives: TextKind}, call: filterReplace, params: []param{need("old"), need("new"), opt("count", -1)}},
	"startswith": {types: typing{gives: BoolKind}, call: affixMethod(strings.HasPrefix), params: []param{need("prefix")}},
	"endswith":   {types: typing{gives: BoolKind}, call: affixMethod(strings.HasSuffix), params: []param{need("suffix")}},
	"removeprefix": {types: typing{gives: TextKind}, call: func(_ *state, in any, a *args) any {
		return strings.TrimPrefix(in.(string), a.string(0))
	}, params: []param{need("prefix")}},
	"removesuffix": {types: typing{gives: TextKind}, call: func(_ *state, in any, a *args) any {
		return strings.TrimSuffix(in.(string), a.string(0))
	}, params: []param{need("suffix")}},
	"join": {types: typing{gives: TextKind}, call: func(st *state, in any, a *args) any {
		return st.joinValues(a.values[0], in.(string), "")
	}, params: []param{need("items")}},
	"find": {types: typing{gives: IntKind}, call: func(_ *state, in any, a *args) any {
		s := in.(string)
		i := strings.Index(s, a.string(0))
		if i < 0 {
			return int64(-1)
		}
		return int64(utf8.RuneCountInString(s[:i]))
	}, params: []param{need("sub")}},
	"count": {types: typing{gives: IntKind}, call: func(_ *state, in any, a *args) any {
		return int64(strings.Count(in.(string), a.string(0)))
	}, params: []param{need("sub")}},
	"isdigit": {types: typing{gives: BoolKind}, call: func(_ *state, in any, _ *args) any {
		s := in.(string)
		return s != "" && strings.IndexFunc(s, func(c rune) bool { return !unicode.IsDigit(c) }) < 0
	}},
	"zfill": {types: typing{gives: TextKind}, call: methodZfill, params: []param{need("width")}},
}

func stripMethod(space func(string) string, cut func(s, chars string) string) func(*state, any, *args) any {
	return func(st *state, in any, a *args) any {
		if a.values[0] == nil {
			return space(in.(string))
		}
		return cut(in.(string), a.string(0))
	}
}

// affixMethod accepts one affix or a list of them, as Python accepts a tuple.
func affixMethod(has func(s, affix string) bool) func(*state, any, *args) any {
	return func(st *state, in any, a *args) any {
		list, ok := a.values[0].([]any)
		if !ok {
			return has(in.(string), a.string(0))
		}
		found := slices.ContainsFunc(list, func(v any) bool {
			s, ok := v.(string)
			return ok && has(in.(string), s)
		})
		st.spend(len(list))
		return found
	}
}

func methodZfill(st *state, in any, a *args) any {
	s := in.(string)
	missing := max(0, a.int(0, 0)-utf8.RuneCountInString(s))
	st.grow(2*missing + len(s))
	sign := ""
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign, s = s[:1], s[1:]
	}
	return sign + strings.Repeat("0", missing) + s
}

// methodSplit splits at a separator, or at runs of white space without one.
func methodSplit(st *state, in any, a *args) any {
	return st.split(in, a, false)
}

func methodRsplit(st *state, in any, a *args) any {
	return st.split(in, a, true)
}

func (st *state) split(in any, a *args, fromRight bool) any {
	s := st.text(in)
	limit := a.int(1, -1)
	if a.values[0] == nil {
		return st.splitSpace(s, limit, fromRight)
	}
	separator := a.string(0)
	if separator == "" {
		panic(failf(CodeValue, "split: the separator is empty"))
	}
	st.growList(strings.Count(s, separator) + 1)
	parts := strings.Split(s, separator)
	if limit >= 0 && len(parts) > limit+1 {
		if fromRight {
			cut := len(parts) - limit
			parts = append([]string{strings.Join(parts[:cut], separator)}, parts[cut:]...)
		} else {
			parts = strings.SplitN(s, separator, limit+1)
		}
	}
	st.growText(s)
	return anyList(parts)
}

func (st *state) splitSpace(s string, limit int, fromRight bool) any {
	st.growList(len(s)/2 + 1)
	fields := strings.Fields(s)
	if limit < 0 || len(fields) <= limit+1 {
		return anyList(fields)
	}
	out := []any{}
	rest := strings.TrimSpace(s)
	for range limit {
		var i int
		if fromRight {
			i = strings.LastIndexFunc(rest, unicode.IsSpace)
			out = append(out, strings.TrimSpace(rest[i:]))
			rest = strings.TrimSpace(rest[:i])
		} else {
			i = strings.IndexFunc(rest, unicode.IsSpace)
			out = append(out, rest[:i])
			rest = strings.TrimSpace(rest[i:])
		}
	}
	if !fromRight {
		return append(out, strings.TrimLeftFunc(restOf(s, out), unicode.IsSpace))
	}
	out = append(out, strings.TrimRightFunc(s[:len(s)-len(restTail(s, out))], unicode.IsSpace))
	slices.Reverse(out)
	return out
}

// restOf is s after the words in out, its trailing space kept as Python keeps it.
func restOf(s string, out []any) string {
	for _, word := range out {
		s = strings.TrimLeftFunc(s, unicode.IsSpace)[len(word.(string)):]
	}
	return s
}

// restTail is the part of s that the words of out, taken from the right, cover.
func restTail(s string, out []any) string {
	head := s
	for _, word := range out {
		head = strings.TrimRightFunc(head, unicode.IsSpace)
		head = head[:len(head)-len(word.(string))]
	}
	return s[len(head):]
}

func methodSplitlines(st *state, in any, a *args) any {
	s := in.(string)
	st.growList(strings.Count(s, "\n") + strings.Count(s, "\r") + 1)
	out := []any{}
	for s != "" {
		i := strings.IndexAny(s, "\r\n")
		if i < 0 {
			return append(out, s)
		}
		end := i + 1
		if strings.HasPrefix(s[i:], "\r\n") {
			end++
		}
		if a.bool(0) {
			i = end
		}
		out = append(out, s[:i])
		s = s[end:]
	}
	return out
}

// method finds the method of a value.
func (st *state) method(of any, name string) (*function, error) {
	kind, table := "", map[string]*function(nil)
	switch of.(type) {
	case string:
		kind, table = "string method", st.lib.stringMethods
	case []any:
		kind, table = "list method", st.lib.listMethods
	case *loop:
		kind, table = "loop method", loopMethods
	case map[string]any, Object:
		kind, table = "mapping method", st.lib.dictMethods
	default:
		return nil, failf(CodeType, "%s has no methods", typeName(of))
	}
	return lookupFunction(kind, table, name)
}

func (l *library) methodNames() map[string]*function {
	all := maps.Clone(l.stringMethods)
	for _, more := range []map[string]*function{l.dictMethods, l.listMethods, loopMethods} {
		maps.Copy(all, more)
	}
	return all
}

func (l *library) isMethod(name string) bool {
	return l.stringMethods[name] != nil || l.dictMethods[name] != nil || l.listMethods[name] != nil || loopMethods[name] != nil
}

// listMethods are the methods of lists; none of them changes the list.
var listMethods = map[string]*function{
	"index": {types: typing{gives: IntKind}, params: []param{need("value")}, call: func(st *state, in any, a *args) any {
		for i, item := range in.([]any) {
			if st.equal(item, a.values[0], 0) {
				return int64(i)
			}
		}
		panic(failf(CodeValue, "index: the value is not in the list"))
	}},
	"count": {types: typing{gives: IntKind}, params: []param{need("value")}, call: func(st *state, in any, a *args) any {
		n := int64(0)
		for _, item := range in.([]any) {
			if st.equal(item, a.values[0], 0) {
				n++
			}
		}
		return n
	}},
}
