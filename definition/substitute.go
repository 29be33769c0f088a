package definition

import (
	"strconv"
	"strings"

	"github.com/stepwell/stepwell/spec"
)

// substitution puts ${NAME} and ${NAME:-default} in while a document is loaded (docs/semantics §2;
// stac-manager, variable substitution). Variables of the matrix win over the environment; an
// empty variable counts as missing, as in a shell; $${ stands for ${.
type substitution struct {
	env    func(string) (string, bool)
	vars   map[string]string
	sent   bool // see ParseOptions
	stored bool
	report *spec.Report
	path   func() string // of the scalar at hand
}

// active is false when the document's ${ are to be left alone.
func (s *substitution) active() bool { return s.env != nil || s.vars != nil || s.sent || s.stored }

func (s *substitution) value(name string) (string, bool) {
	if v, ok := s.vars[name]; ok && v != "" {
		return v, true
	}
	if s.env != nil {
		if v, ok := s.env(name); ok && v != "" {
			return v, true
		}
	}
	return "", false
}

// apply substitutes in one scalar. A scalar that is nothing but one placeholder is typed again as if
// its value had been written there; for a quoted one this is done only where the text and the
// typed value are the same thing (8080 and true, but not 007 or 1.10). Anything else stays text.
func (s *substitution) apply(n *spec.Node, path func() string) {
	if !s.active() || !strings.Contains(n.Text, "${") {
		return
	}
	s.path = path
	result, whole, changed := s.expand(n.Text, n.Pos)
	if !changed {
		return
	}
	n.Text, n.Loose = result, true
	n.Filled = true
	switch {
	case !whole:
		n.Literal = true
	case n.Literal && lossless(result):
		n.Literal = false
	}
}

// expand gives the text with every placeholder replaced and whether it was one placeholder alone.
// Values may not bring a template of their own: the environment is never evaluated.
func (s *substitution) expand(text string, pos Pos) (result string, whole, changed bool) {
	var out, own strings.Builder // own is the text without outside values
	rest, inTemplate := text, false
	for {
		i := strings.Index(rest, "${")
		if i < 0 {
			break
		}
		before, escaped := strings.CutSuffix(rest[:i], "$")
		inTemplate = stillInTemplate(inTemplate, before)
		out.WriteString(before)
		own.WriteString(before)
		if escaped { // $${
			out.WriteString("${")
			own.WriteString("${")
			rest, changed = rest[i+2:], true
			continue
		}
		if s.stored && s.vars == nil { // stays as it is
			out.WriteString("${")
			own.WriteString("${")
			rest = rest[i+2:]
			continue
		}
		end := strings.IndexByte(rest[i:], '}')
		if end < 0 {
			s.report.Fail(pos, s.path(), "${ is never closed", "write ${NAME}, or $${ for the two characters themselves")
			return text, false, false
		}
		placeholder := rest[i+2 : i+end]
		value, external, ok := s.resolve(placeholder, inTemplate, pos)
		if !ok {
			return text, false, false
		}
		whole = i == 0 && len(rest) == len(text) && end+1 == len(text)
		out.WriteString(value)
		if !external {
			own.WriteString(value)
		} else {
			own.WriteByte(' ')
		}
		rest, changed = rest[i+end+1:], true
	}
	out.WriteString(rest)
	own.WriteString(rest)
	result = out.String()
	if openings(result) != openings(own.String()) {
		s.report.Fail(pos, s.path(), "a value put in for ${…} forms a template", "what comes from the environment is never evaluated; pass it as a parameter")
		return text, false, false
	}
	return result, whole, changed
}

func (s *substitution) resolve(placeholder string, inTemplate bool, pos Pos) (value string, external, ok bool) {
	name, fallback, hasFallback := strings.Cut(placeholder, ":-")
	if !variableName(name) {
		hint := "write $${ for the two characters themselves"
		if root, _, dotted := strings.Cut(name, "."); dotted && variableName(root) {
			hint = "for a value of the run write {{ " + name + " }}; " + hint
		}
		s.report.Fail(pos, s.path(), "${"+placeholder+"} does not name a variable", hint)
		return "", false, false
	}
	if inTemplate {
		s.report.Fail(pos, s.path(), "${"+name+"} stands inside {{ }}", "the environment is not visible to expressions; put it beside the {{ }} or pass it as a parameter")
		return "", false, false
	}
	if v, found := s.value(name); found {
		return v, true, true
	}
	if s.sent {
		s.report.Fail(pos, s.path(), "${"+placeholder+"} is put in when a file is loaded, and this document was sent",
			"write the value itself, make it a parameter, or write $${"+placeholder+"} for a variable of the shell")
		return "", false, false
	}
	if hasFallback {
		return fallback, false, true
	}
	s.report.Fail(pos, s.path(), "${"+name+"} has no value", "set the variable, or write ${"+name+":-default}; for the shell's variable write $"+name+" or $${"+name+"}")
	return "", false, false
}

// variableName: a letter or _ first, then also digits.
func variableName(s string) bool { return isName(s, "_", "_0123456789") }

// isName reports whether a text begins with a letter from a to z in either case or one of first, and goes on with
// letters and those of then.
func isName(s, first, then string) bool {
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			continue
		}
		if i == 0 && strings.IndexByte(first, c) < 0 || strings.IndexByte(then, c) < 0 {
			return false
		}
	}
	return s != ""
}

// stillInTemplate says whether the text's end lies inside {{ }}, given whether its beginning does.
func stillInTemplate(inside bool, text string) bool {
	opening, closing := strings.LastIndex(text, "{{"), strings.LastIndex(text, "}}")
	if opening == closing { // neither
		return inside
	}
	return opening > closing
}

func openings(s string) int {
	return strings.Count(s, "{{") + strings.Count(s, "{%") + strings.Count(s, "{#")
}

// lossless reports whether a text and the value YAML makes of it say exactly the same.
func lossless(s string) bool {
	switch v, _ := spec.ParseScalar(s); v := v.(type) {
	case bool:
		return s == "true" || s == "false"
	case int64:
		return strconv.FormatInt(v, 10) == s
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64) == s
	}
	return false
}
