// Package jsonvalue reads and writes JSON as the values that templates compute with: nil, bool, int64, float64, string,
// []any and map[string]any, and json.Number for integers that fit in none of them. encoding/json and go-json-experiment
// make every number a float64, or leave it a text, and keep no budget.
package jsonvalue

import (
	"math"
	"math/bits"
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
	for {
		n := special(s)
		out = appendText(out, s[:n])
		if n == len(s) {
			return append(out, '"')
		}
		switch c := s[n]; c {
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
		s = s[n+1:]
	}
}

// appendText adds a text without escapes.
func appendText(out []byte, s string) []byte {
	if utf8.ValidString(s) {
		return append(out, s...)
	}
	for _, r := range s { // each byte that is no UTF-8 is U+FFFD
		out = utf8.AppendRune(out, r)
	}
	return out
}

// special returns where the first byte of a text is that a JSON string escapes, which is a quote, a backslash or a control
// character, or the length of the text. It looks at eight bytes at once: the lowest high bit of each term below stands at the first
// byte that is zero, or less than ' '; the bits above that one may be wrong.
func special(s string) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(s); i += 8 {
		b := s[i : i+8]
		w := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 | uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		quote, slash := w^ones*'"', w^ones*'\\'
		if found := ((quote-ones)&^quote | (slash-ones)&^slash | (w-ones*' ')&^w) & highs; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(s) && s[i] >= ' ' && s[i] != '"' && s[i] != '\\'; i++ {
	}
	return i
}
