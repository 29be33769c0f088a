// Package jsonvalue reads and writes JSON as the values that templates compute with: nil, bool, int64, float64, string,
// []any and map[string]any, and json.Number for integers that fit in none of them. encoding/json and go-json-experiment
// make every number a float64, or leave it a text, and keep no budget.
package jsonvalue

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxDepth is how deep values may nest.
const MaxDepth = 256

// Budget is charged for what is decoded, before it is allocated. Its error ends the decoding.
type Budget interface {
	Pay(elements, entries int) error
}

// Error is a text that is not JSON, or a value that has no form in it.
type Error struct {
	Message string
	Off     int   // where in the text, in bytes
	TooDeep bool  // it is deeper than MaxDepth
	Err     error // the budget's, nil if it was not that
}

func (e *Error) Error() string { return e.Message }
func (e *Error) Unwrap() error { return e.Err }

// FloatText is Python's repr: the shortest digits that read back as f, always with a point or
// an exponent, so that a float never turns into an integer on its way through text.
func FloatText(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if strings.IndexByte(s, '.') < 0 {
		s += ".0"
	}
	return s
}

const hexDigits = "0123456789abcdef"

// AppendQuoted writes a JSON string; invalid UTF-8 becomes U+FFFD.
func AppendQuoted(out []byte, s string) []byte {
	out = append(out, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				out = append(append(out, s[start:i]...), "\ufffd"...)
				start = i + 1
			}
			i += size
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		out = append(out, s[start:i]...)
		switch c {
		case '"', '\\':
			out = append(out, '\\', c)
		case '\n':
			out = append(out, '\\', 'n')
		case '\r':
			out = append(out, '\\', 'r')
		case '\t':
			out = append(out, '\\', 't')
		default:
			out = append(out, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	return append(append(out, s[start:]...), '"')
}
