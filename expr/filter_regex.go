package expr

import (
	"regexp"
	"regexp/syntax"
	"strings"
)

// pattern is a compiled regular expression with the size that its matching costs.
type pattern struct {
	re   *regexp.Regexp
	size int
}

const (
	maxPattern     = 1000 // bytes of a pattern
	matchSize      = 256  // charged for one match in a list of matches
	maxPatternSize = 2000 // its parts after repetitions are written out
)

// pattern compiles RE2 syntax, once per evaluation, and charges a match over text: RE2 is linear
// in the text, but the factor is the pattern's size.
func (st *state) pattern(source, text string) *regexp.Regexp {
	p, ok := st.regex[source]
	if !ok {
		p = mustOf(compilePattern(source))
		st.spend(4 * p.size)
		st.grow(4096 + 256*p.size)
		if st.regex == nil {
			st.regex = map[string]*pattern{}
		}
		st.regex[source] = p
	}
	st.spend(len(text) / 4 * p.size)
	return p.re
}

func compilePattern(source string) (*pattern, error) {
	if len(source) > maxPattern {
		return nil, failf(CodeBudget, "the regular expression has more than %d bytes", maxPattern)
	}
	tree, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		e := failf(CodeValue, "invalid regular expression: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		e.Hint = "the syntax is RE2: no look-around, no back references"
		return nil, e
	}
	size := patternSize(tree)
	if size > maxPatternSize {
		return nil, failf(CodeBudget, "the regular expression is too large: its repetitions make %d parts", size)
	}
	re, err := regexp.Compile(source)
	if err != nil {
		return nil, failf(CodeValue, "invalid regular expression: %v", err)
	}
	return &pattern{re: re, size: size}, nil
}

// patternSize estimates the compiled size; syntax.Parse has bounded depth and repetition.
func patternSize(re *syntax.Regexp) int {
	size := 1 + len(re.Rune)/8
	if re.Op == syntax.OpLiteral {
		size = len(re.Rune)
	}
	for _, sub := range re.Sub {
		size += patternSize(sub)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(1, re.Min, re.Max)
	}
	return size
}

// filterRegexSearch is the first match, or none.
func filterRegexSearch(st *state, in any, a *args) any {
	s, re := st.textAndPattern(in, a)
	if at := re.FindStringIndex(s); at != nil {
		return s[at[0]:at[1]]
	}
	return nil
}

// textAndPattern is a filter's input text, and its first argument as a regular expression.
func (st *state) textAndPattern(in any, a *args) (string, *regexp.Regexp) {
	text := st.text(in)
	return text, st.pattern(a.string(0), text)
}

// filterRegexReplace replaces count matches, or all with 0; \1 and \g<name> stand for groups.
func filterRegexReplace(st *state, in any, a *args) any {
	s, re := st.textAndPattern(in, a)
	template, limit := goTemplate(a.string(1)), a.int(2, 0)
	most := st.bytes/matchSize + 1 // one more than the budget has room for
	if limit > 0 {
		most = min(most, limit)
	}
	matches := re.FindAllStringSubmatchIndex(s, most)
	st.grow(len(matches) * matchSize)
	var out []byte
	end := 0
	for _, at := range matches {
		before := len(out)
		out = appendText(out, s[end:at[0]])
		out = appendText(out, string(re.ExpandString(nil, template, s, at)))
		end = at[1]
		st.grow(3 * (len(out) - before))
		st.spend(1 + len(template)/8)
	}
	st.grow(2 * (len(s) - end))
	return string(append(out, s[end:]...))
}

// goTemplate turns Python's group references into Go's and keeps dollars as they are.
func goTemplate(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '$':
			b.WriteString("$$")
		case s[i] != '\\' || i+1 == len(s):
			b.WriteByte(s[i])
		case s[i+1] >= '0' && s[i+1] <= '9':
			i++
			b.WriteString("${" + s[i:i+1] + "}")
		case strings.HasPrefix(s[i+1:], "g<") && strings.IndexByte(s[i:], '>') > 0:
			end := i + strings.IndexByte(s[i:], '>')
			b.WriteString("${" + s[i+3:end] + "}")
			i = end
		case s[i+1] == '\\':
			i++
			b.WriteByte('\\')
		default:
			b.WriteByte('\\')
		}
	}
	return b.String()
}

// testMatch holds when the pattern matches at the beginning, as Python's re.match.
func testMatch(st *state, in any, a *args) any {
	s := st.text(in)
	return st.pattern(`^(?:`+a.string(0)+`)`, s).MatchString(s)
}

// testSearch holds when the pattern matches anywhere.
func testSearch(st *state, in any, a *args) any {
	s, re := st.textAndPattern(in, a)
	return re.MatchString(s)
}
