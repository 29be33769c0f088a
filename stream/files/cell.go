package files

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// quoteNone is the Quote of a CSV whose cells are never quoted.
const quoteNone = "none"

// appendCell appends a cell as JSON: a number or a boolean where it is written like one, null where it is
// empty, else a text. A number with leading zeros is a text, and so is every cell when literal is set. The
// digits of a number stay as they are.
func appendCell(dst, cell []byte, literal, comma bool) []byte {
	if !literal {
		switch trimmed := bytes.TrimSpace(cell); {
		case len(trimmed) == 0:
			return append(dst, "null"...)
		case isWord(trimmed, "true", "True", "TRUE"):
			return append(dst, "true"...)
		case isWord(trimmed, "false", "False", "FALSE"):
			return append(dst, "false"...)
		default:
			if out, ok := appendNumber(dst, trimmed, comma); ok {
				return out
			}
		}
	}
	dst, _ = jsontext.AppendQuote(dst, cell) // which is UTF-8
	return dst
}

func isWord(cell []byte, words ...string) bool {
	for _, w := range words {
		if string(cell) == w {
			return true
		}
	}
	return false
}

// appendNumber appends a cell that is a JSON number (RFC 8259 §6), but that its fraction may begin with a
// comma, and that the zero before it may be missing. It goes straight along the grammar, and so is longer
// than others.
func appendNumber(dst, cell []byte, comma bool) ([]byte, bool) {
	if len(cell) > 400 {
		return dst, false
	}
	begin, i := len(dst), 0
	if cell[i] == '-' {
		dst = append(dst, '-')
		i++
	}
	point := byte('.')
	if comma {
		point = ','
	}
	whole := digits(cell[i:])
	switch {
	case whole == 0 && i+1 < len(cell) && cell[i] == point:
		dst = append(dst, '0')
	case whole == 0, whole > 1 && cell[i] == '0':
		return dst[:begin], false
	}
	dst = append(dst, cell[i:i+whole]...)
	i += whole
	if i < len(cell) && cell[i] == point {
		n := digits(cell[i+1:])
		if n == 0 {
			return dst[:begin], false
		}
		dst = append(append(dst, '.'), cell[i+1:i+1+n]...)
		i += 1 + n
	}
	if i < len(cell) && (cell[i] == 'e' || cell[i] == 'E') {
		at := i
		if i++; i < len(cell) && (cell[i] == '+' || cell[i] == '-') {
			i++
		}
		n := digits(cell[i:])
		if n == 0 {
			return dst[:begin], false
		}
		i += n
		dst = append(dst, cell[at:i]...)
	}
	if i != len(cell) {
		return dst[:begin], false
	}
	return dst, true
}

func digits(p []byte) int {
	for i, c := range p {
		if c < '0' || c > '9' {
			return i
		}
	}
	return len(p)
}
