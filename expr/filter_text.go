package expr

import (
	"encoding/base64"
	"strings"
	"unicode"
	"unicode/utf8"
)

// textFilters work on text; any other value is first rendered as text.
var textFilters = map[string]*function{
	"upper":      textFilter(strings.ToUpper),
	"lower":      textFilter(strings.ToLower),
	"capitalize": textFilter(capitalize),
	"title":      textFilter(titleWords),
	"basename":   textFilter(basename),
	"dirname":    textFilter(dirname),
	"splitext":   {types: typing{like: texts}, call: filterSplitext},
	"urlencode":  {types: typing{gives: TextKind}, call: filterURLEncode},
	"b64encode":  {types: typing{gives: TextKind}, call: filterB64Encode},
	"b64decode":  {types: typing{gives: TextKind}, call: filterB64Decode},
	"string":     {types: typing{gives: TextKind}, call: func(st *state, in any, _ *args) any { return st.text(in) }},
	"wordcount":  {types: typing{gives: IntKind}, call: filterWordcount},
	"trim":       {types: typing{gives: TextKind}, call: filterTrim, params: []param{opt("chars", nil)}},
	"replace":    {types: typing{gives: TextKind}, call: filterReplace, params: []param{need("old"), need("new"), opt("count", nil)}},
	"truncate": {types: typing{gives: TextKind}, call: filterTruncate, params: []param{opt("length", 255), opt("killwords", false),
		opt("end", "..."), opt("leeway", 5)}},
	"indent": {types: typing{gives: TextKind}, call: filterIndent, params: []param{opt("width", 4), opt("first", false), opt("blank", false)}},
	"center": {types: typing{gives: TextKind}, call: filterCenter, params: []param{opt("width", 80)}},
	"format": {types: typing{gives: TextKind}, call: func(st *state, in any, a *args) any {
		return st.format(in, a)
	}, rest: true},
	"split":         {types: typing{like: texts}, call: methodSplit, params: []param{opt("sep", nil), opt("maxsplit", -1)}},
	"regex_search":  {types: typing{gives: TextKind | NoneKind}, call: filterRegexSearch, params: []param{need("pattern")}},
	"regex_replace": {types: typing{gives: TextKind}, call: filterRegexReplace, params: []param{need("pattern"), need("replacement"), opt("count", 0)}},
}

// textFilter makes a filter of a function from text to text. It may change a character into one of at
// most three bytes more, which is charged first.
func textFilter(f func(string) string) *function {
	return &function{types: typing{gives: TextKind}, call: func(st *state, in any, _ *args) any {
		s := st.text(in)
		st.growText(s)
		return f(s)
	}}
}

// growText charges a text that is made out of s, and the time to look at it.
func (st *state) growText(s string) {
	st.spend(len(s) / scanned)
	st.grow(len(s))
}

func capitalize(s string) string {
	_, size := utf8.DecodeRuneInString(s)
	return strings.ToUpper(s[:size]) + strings.ToLower(s[size:])
}

// titleWords is Jinja2's filter: a word begins after white space, a hyphen or an opening bracket.
func titleWords(s string) string {
	return mapWords(s, func(c rune) bool { return unicode.IsSpace(c) || strings.ContainsRune("-({[<", c) })
}

// mapWords raises each character that follows a separator and lowers the others.
func mapWords(s string, separates func(rune) bool) string {
	start := true
	return strings.Map(func(c rune) rune {
		first := start
		start = separates(c)
		if first {
			return unicode.ToUpper(c)
		}
		return unicode.ToLower(c)
	}, s)
}

func basename(s string) string { return s[strings.LastIndexByte(s, '/')+1:] }

func dirname(s string) string {
	head := s[:strings.LastIndexByte(s, '/')+1]
	if trimmed := strings.TrimRight(head, "/"); trimmed != "" {
		return trimmed
	}
	return head
}

// filterSplitext is Python's os.path.splitext: a leading dot begins a name, not an extension.
func filterSplitext(st *state, in any, _ *args) any {
	s := st.text(in)
	name := basename(s)
	dot := strings.LastIndexByte(name, '.')
	if dot <= 0 || strings.Trim(name[:dot], ".") == "" {
		return []any{s, ""}
	}
	cut := len(s) - len(name) + dot
	return []any{s[:cut], s[cut:]}
}

func filterWordcount(st *state, in any, _ *args) any {
	s := st.text(in)
	words, inside := int64(0), false
	for _, c := range s {
		letter := c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c)
		if letter && !inside {
			words++
		}
		inside = letter
	}
	return words
}

func filterTrim(st *state, in any, a *args) any {
	s := st.text(in)
	if a.values[0] == nil {
		return strings.TrimSpace(s)
	}
	return strings.Trim(s, a.string(0))
}

func filterReplace(st *state, in any, a *args) any {
	s := st.text(in)
	old := st.text(a.values[0])
	fresh := st.text(a.values[1])
	return st.replace(s, old, fresh, a.int(2, -1))
}

func (st *state) replace(s, old, fresh string, limit int) any {
	count := strings.Count(s, old)
	if limit >= 0 {
		count = min(count, limit)
	}
	st.grow(len(s) + count*max(0, len(fresh)-len(old)))
	return strings.Replace(s, old, fresh, limit)
}

func filterTruncate(st *state, in any, a *args) any {
	s := st.text(in)
	length, end, leeway := a.int(0, 255), a.string(2), a.int(3, 5)
	size := utf8.RuneCountInString(end)
	if length < size {
		panic(failf(CodeValue, "truncate: length must be at least %d, the length of end", size))
	}
	if utf8.RuneCountInString(s) <= length+max(leeway, 0) {
		return s
	}
	head := prefix(s, length-size)
	if !a.bool(1) {
		if i := strings.LastIndexByte(head, ' '); i >= 0 {
			head = head[:i]
		}
	}
	return st.join([]string{head, end}, "")
}

// prefix is the first n characters of s.
func prefix(s string, n int) string {
	for i := range s {
		if n <= 0 {
			return s[:i]
		}
		n--
	}
	return s
}

func filterIndent(st *state, in any, a *args) any {
	s := st.text(in)
	indent, ok := a.values[0].(string)
	if !ok {
		width := max(0, a.int(0, 4))
		st.grow(width)
		indent = strings.Repeat(" ", width)
	}
	lines := strings.Count(s, "\n") + 1
	if lines > st.bytes || len(indent) > st.bytes {
		st.grow(st.bytes + 1)
		return nil
	}
	st.grow(len(s) + lines*len(indent))
	var b strings.Builder
	b.Grow(len(s) + lines*len(indent))
	for i, line := range strings.Split(s, "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		if (i > 0 || a.bool(1)) && (line != "" || a.bool(2) || i == 0) {
			b.WriteString(indent)
		}
		b.WriteString(line)
	}
	st.growList(lines)
	return b.String()
}

func filterCenter(st *state, in any, a *args) any {
	s := st.text(in)
	missing := max(0, a.int(0, 80)-utf8.RuneCountInString(s))
	st.grow(2*len(s) + 2*missing)
	left := missing / 2
	if missing%2 == 1 && (missing+utf8.RuneCountInString(s))%2 == 1 {
		left++ // Python puts the odd space to the left when the width is odd
	}
	return strings.Repeat(" ", left) + s + strings.Repeat(" ", missing-left)
}

// filterURLEncode escapes text, or writes a mapping or a list of pairs as a query string.
func filterURLEncode(st *state, in any, _ *args) any {
	m, isMap := st.mapping(in)
	var pairs []any
	if isMap {
		for _, k := range sortedKeys(m) {
			pairs = append(pairs, []any{k, m[k]})
		}
	} else if list, ok := in.([]any); ok {
		pairs = list
	} else {
		s := st.text(in)
		st.grow(3 * len(s))
		return percentEncode(s, "/")
	}
	parts := make([]string, len(pairs))
	for i, pair := range pairs {
		kv, ok := pair.([]any)
		if !ok || len(kv) != 2 {
			panic(failf(CodeType, "urlencode needs text, a mapping or a list of pairs"))
		}
		for j, v := range kv {
			s := st.text(v)
			st.grow(3 * len(s))
			parts[i] += [...]string{"", "="}[j] + strings.ReplaceAll(percentEncode(s, " "), " ", "+")
		}
	}
	return st.join(parts, "&")
}

func percentEncode(s, safe string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if isAlnum(c) || strings.IndexByte("_.-~", c) >= 0 || strings.IndexByte(safe, c) >= 0 {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte("0123456789ABCDEF"[c>>4])
			b.WriteByte("0123456789ABCDEF"[c&15])
		}
	}
	return b.String()
}

func filterB64Encode(st *state, in any, _ *args) any {
	s := st.text(in)
	st.grow(2 * len(s))
	return base64.StdEncoding.EncodeToString([]byte(s))
}

// filterB64Decode accepts the standard and the URL alphabet, padded or not.
func filterB64Decode(st *state, in any, _ *args) any {
	s := st.text(in)
	st.grow(3 * len(s))
	s = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(s), "=")
	out, err := base64.RawStdEncoding.DecodeString(s)
	if err != nil {
		panic(failf(CodeValue, "b64decode: the input is not base64"))
	}
	if !utf8.Valid(out) {
		panic(failf(CodeValue, "b64decode: the decoded bytes are not UTF-8 text"))
	}
	return string(out)
}
