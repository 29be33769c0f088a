package expr

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stepwell/stepwell/expr/jsonvalue"
)

// maxWidth bounds the width and the precision of one conversion.
const maxWidth = 1000

// format is the format filter: printf-style, with positional or with named values.
func (st *state) format(in any, a *args) any {
	s := st.text(in)
	if len(a.names) == 0 {
		return st.sprintf(s, a.rest, nil)
	}
	if len(a.rest) > 0 {
		panic(failf(CodeType, "format takes positional or named values, not both"))
	}
	named := map[string]any{}
	for i, name := range a.names {
		named[name] = a.named[i]
	}
	return st.sprintf(s, nil, named)
}

// percent is the operator: format % value, % list or % mapping.
func (st *state) percent(format string, v any) any {
	switch v := v.(type) {
	case []any:
		return st.sprintf(format, v, nil)
	case map[string]any:
		return st.sprintf(format, []any{v}, v)
	}
	return st.sprintf(format, []any{v}, nil)
}

// conversion is one %… of a format.
type conversion struct {
	name             string // %(name)s
	flags            string
	width, precision int // -1 where absent
	verb             byte
}

func (st *state) sprintf(format string, values []any, named map[string]any) any {
	st.growText(format)
	var b []byte
	used := 0
	for {
		i := strings.IndexByte(format, '%')
		if i < 0 {
			break
		}
		b = appendText(b, format[:i])
		c, rest := parseConversion(format[i+1:])
		format = rest
		if c.verb == '%' {
			b = append(b, '%')
			continue
		}
		text := st.convert(c, pickValue(c, values, named, &used))
		st.grow(3 * len(text))
		st.spend(1)
		b = appendText(b, text)
	}
	b = appendText(b, format)
	if named == nil && used < len(values) {
		panic(failf(CodeType, "the format uses %d of %d values", used, len(values)))
	}
	return string(b)
}

func parseConversion(s string) (conversion, string) {
	c := conversion{width: -1, precision: -1}
	if strings.HasPrefix(s, "(") {
		end := strings.IndexByte(s, ')')
		if end < 0 {
			panic(failf(CodeValue, "the format has %%( without )"))
		}
		c.name, s = s[1:end], s[end+1:]
	}
	n := len(s) - len(strings.TrimLeft(s, "#0- +"))
	c.flags, s = s[:n], s[n:]
	c.width, s = parseWidth(s)
	if rest, ok := strings.CutPrefix(s, "."); ok {
		c.precision, s = parseWidth(rest)
		c.precision = max(c.precision, 0)
	}
	if s == "" {
		panic(failf(CodeValue, "the format ends inside a conversion"))
	}
	c.verb = s[0]
	return c, s[1:]
}

func parseWidth(s string) (int, string) {
	digits := s[:len(s)-len(strings.TrimLeft(s, "0123456789"))]
	if digits == "" {
		return -1, s
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n > maxWidth {
		panic(failf(CodeBudget, "a width or precision in the format exceeds %d", maxWidth))
	}
	return n, s[len(digits):]
}

func pickValue(c conversion, values []any, named map[string]any, used *int) any {
	if c.name != "" {
		v, ok := named[c.name]
		if !ok {
			panic(failf(CodeValue, "the format needs a value named %s", clip(c.name)))
		}
		return v
	}
	if *used >= len(values) {
		panic(failf(CodeType, "the format needs more than %d values", len(values)))
	}
	*used++
	return values[*used-1]
}

// convert writes one value. Width and flags are those of C, which Go's fmt shares.
func (st *state) convert(c conversion, v any) string {
	spec := "%" + strings.ReplaceAll(c.flags, "#", "")
	if c.width >= 0 {
		spec += strconv.Itoa(c.width)
	}
	v = mustOf(st.norm(v))
	switch c.verb {
	case 's', 'r', 'a':
		return st.convertText(c, v)
	case 'd', 'i', 'u', 'x', 'X', 'o', 'c':
		if s, ok := v.(string); ok && c.verb == 'c' && utf8.RuneCountInString(s) == 1 {
			return st.convertText(c, s)
		}
		n := c.number(v)
		if n.isFloat {
			if c.verb != 'd' && c.verb != 'i' && c.verb != 'u' || math.Abs(n.f) >= 1<<63 || math.IsNaN(n.f) {
				panic(failf(CodeType, "%%%c needs an integer", c.verb))
			}
			n.i = int64(n.f)
		}
		return formatInt(spec, c, n.i)
	case 'f', 'F', 'e', 'E', 'g', 'G':
		precision := c.precision
		if precision < 0 {
			precision = 6
		}
		return fmt.Sprintf(spec+"."+strconv.Itoa(precision)+string(c.verb), c.number(v).float())
	}
	panic(failf(CodeValue, "the format has an unknown conversion %%%s", strconv.QuoteRune(rune(c.verb))))
}

func (c conversion) number(v any) num {
	n, ok := number(v)
	if !ok {
		panic(failf(CodeType, "%%%c needs a number, not %s", c.verb, typeName(v)))
	}
	return n
}

func formatInt(spec string, c conversion, i int64) string {
	switch c.verb {
	case 'i', 'u':
		c.verb = 'd'
	case 'c':
		if i < 0 || i > utf8.MaxRune || !utf8.ValidRune(rune(i)) {
			panic(failf(CodeValue, "%%c: %d is not a character", i))
		}
	}
	if c.precision >= 0 && c.verb != 'c' {
		spec += "." + strconv.Itoa(c.precision)
	}
	if strings.Contains(c.flags, "#") && c.verb != 'd' && c.verb != 'c' {
		spec = strings.Replace(spec, "%", "%#", 1)
		if c.verb == 'o' {
			c.verb = 'O' // Python's prefix is 0o
			spec = strings.Replace(spec, "%#", "%", 1)
		}
	}
	if c.verb == 'c' {
		return fmt.Sprintf(spec+"c", rune(i))
	}
	return fmt.Sprintf(spec+string(c.verb), i)
}

func (st *state) convertText(c conversion, v any) string {
	s := st.text(v)
	if c.verb == 'r' || c.verb == 'a' {
		if _, ok := v.(string); ok {
			s = string(jsonvalue.AppendQuoted(nil, s))
		}
	}
	if c.precision >= 0 {
		s = prefix(s, c.precision)
	}
	padding := strings.Repeat(" ", max(0, c.width-utf8.RuneCountInString(s)))
	if strings.Contains(c.flags, "-") {
		return s + padding
	}
	return padding + s
}
