package spec

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Scalars follow the YAML 1.2 core schema: true and false are the only booleans, 0o17 is octal, dates are text.
// Scalars special to YAML 1.1 (yes, 017, 1_000) stay text.

func nullText(s string) bool {
	switch s {
	case "", "~", "null", "Null", "NULL":
		return true
	}
	return false
}

// Scalar is the value of a scalar: nil, bool, int64, float64 or string. The reason is not empty when
// the text looks like a number but cannot be one.
func (n *Node) Scalar() (value any, reason string) {
	if n.Literal {
		return n.Text, ""
	}
	return ParseScalar(n.Text)
}

// ParseScalar is Scalar for a text without quotes.
func ParseScalar(s string) (value any, reason string) {
	if nullText(s) {
		return nil, ""
	}
	switch s {
	case "true", "True", "TRUE":
		return true, ""
	case "false", "False", "FALSE":
		return false, ""
	case ".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF":
		return s, "numbers must be finite"
	}
	if c := s[0]; c != '+' && c != '-' && c != '.' && (c < '0' || c > '9') {
		return s, ""
	}
	return numberOrText(s)
}

func numberOrText(s string) (value any, reason string) {
	digits := strings.TrimLeft(s, "+-")
	if len(s)-len(digits) > 1 || digits == "" {
		return s, ""
	}
	if base := basePrefix(digits); base != 0 {
		v, err := strconv.ParseInt(strings.Replace(s, digits[:2], "", 1), base, 64)
		return orText(v, err, s)
	}
	if AllDigits(digits) {
		if len(digits) > 1 && digits[0] == '0' {
			return s, "" // 007: an octal to some, a name to most
		}
		v, err := strconv.ParseInt(s, 10, 64)
		return orText(v, err, s)
	}
	if !floatShape(digits) {
		return s, ""
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(v, 0) {
		return s, "the number is too large"
	}
	return v, ""
}

func orText(v int64, err error, s string) (any, string) {
	if err != nil {
		return s, "the number does not fit into 64 bits"
	}
	return v, ""
}

func basePrefix(s string) int {
	if len(s) < 3 || s[0] != '0' {
		return 0
	}
	base, set := 0, ""
	switch s[1] {
	case 'o':
		base, set = 8, "01234567"
	case 'x':
		base, set = 16, "0123456789abcdefABCDEF"
	default:
		return 0
	}
	if strings.Trim(s[2:], set) != "" {
		return 0
	}
	return base
}

// AllDigits reports whether a text is a whole number without a sign.
func AllDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// floatShape: digits with a point and/or an exponent (YAML 1.2 core schema).
func floatShape(s string) bool {
	mantissa, exponent, hasExponent := s, "", false
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, exponent, hasExponent = s[:i], s[i+1:], true
		exponent = strings.TrimPrefix(strings.TrimPrefix(exponent, "-"), "+")
	}
	if hasExponent && !AllDigits(exponent) {
		return false
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	return whole+fraction != "" && (whole == "" || AllDigits(whole)) && (fraction == "" || AllDigits(fraction))
}

// surprising is the reading of a plain text by other YAML readers, "" when all read text.
func surprising(s string) string {
	switch strings.ToLower(s) {
	case "yes", "no", "on", "off":
		return "a boolean to YAML 1.1"
	}
	if len(s) > 1 && s[0] == '0' && AllDigits(s) {
		return "an octal number to YAML 1.1"
	}
	if len(s) == 10 && s[4] == '-' && s[7] == '-' && AllDigits(s[:4]) && AllDigits(s[5:7]) && AllDigits(s[8:]) {
		return "a date to YAML 1.1"
	}
	return ""
}

// Quote quotes a text for a message, shortened to something readable.
func Quote(s string) string {
	const most = 60
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most-1]) + "…"
	}
	return strconv.Quote(s)
}
