package expr

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokenEnd    tokenKind = iota // the tag's closing delimiter, or the end of a bare expression
	tokenName                    // text is the name
	tokenString                  // text is the decoded string
	tokenNumber                  // value is an int64 or a float64
	tokenOp                      // text is the operator
)

type token struct {
	kind  tokenKind
	text  string
	value any
	off   int
}

func (t token) is(op string) bool  { return t.kind == tokenOp && t.text == op }
func (t token) word(w string) bool { return t.kind == tokenName && t.text == w }
func (t token) describe() string {
	switch t.kind {
	case tokenEnd:
		return "the end of the expression"
	case tokenString:
		return strconv.Quote(clip(t.text))
	case tokenNumber:
		return "a number"
	}
	return strconv.Quote(clip(t.text))
}

// lexer yields the tokens of one tag on demand, so that a copy of it is a look-ahead.
// It is given the closing delimiter, which counts only outside brackets and strings.
type lexer struct {
	src     string
	off     int
	start   int    // where the tag begins
	closer  string // "}}", "%}", or "" for a bare expression
	nesting int    // open brackets
	dot     bool   // the last token was a dot: digits are an index, not a float
}

func (l *lexer) next() (token, error) {
	for l.off < len(l.src) && strings.IndexByte(" \t\r\n\f\v", l.src[l.off]) >= 0 {
		l.off++
	}
	start := l.off
	rest := l.src[start:]
	if l.closed(rest) {
		return token{kind: tokenEnd, off: start}, nil
	}
	if rest == "" {
		if l.closer == "" {
			return token{kind: tokenEnd, off: start}, nil
		}
		return token{off: l.start}, failf(CodeSyntax, "the tag is not closed: %s is missing", l.closer)
	}
	afterDot := l.dot
	l.dot = false
	c, size := utf8.DecodeRuneInString(rest)
	switch {
	case c == '_' || unicode.IsLetter(c):
		return l.name(start), nil
	case c >= '0' && c <= '9':
		return l.number(start, afterDot)
	case c == '\'' || c == '"':
		return l.quoted(start)
	}
	return l.operator(start, size)
}

func (l *lexer) closed(rest string) bool {
	if l.closer == "" || l.nesting > 0 {
		return false
	}
	return strings.HasPrefix(rest, l.closer) ||
		len(rest) > 2 && (rest[0] == '-' || rest[0] == '+' && l.closer == "%}") && rest[1:3] == l.closer
}

func (l *lexer) name(start int) token {
	for l.off < len(l.src) {
		c, size := utf8.DecodeRuneInString(l.src[l.off:])
		if c != '_' && !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			break
		}
		l.off += size
	}
	return token{kind: tokenName, text: l.src[start:l.off], off: start}
}

// digits skips decimal digits with single underscores between them.
func (l *lexer) digits() {
	for l.off < len(l.src) {
		c := l.src[l.off]
		isDigit := c >= '0' && c <= '9'
		between := c == '_' && l.off+1 < len(l.src) && l.src[l.off+1] >= '0' && l.src[l.off+1] <= '9'
		if !isDigit && !between {
			return
		}
		l.off++
	}
}

func (l *lexer) digitAt(i int) bool {
	return i < len(l.src) && l.src[i] >= '0' && l.src[i] <= '9'
}

func (l *lexer) number(start int, afterDot bool) (token, error) {
	t := token{kind: tokenNumber, off: start}
	if !afterDot && len(l.src) > start+2 && l.src[start] == '0' && strings.IndexByte("xXoObB", l.src[start+1]) >= 0 {
		l.off += 2
		for l.off < len(l.src) && (l.src[l.off] == '_' || isAlnum(l.src[l.off])) {
			l.off++
		}
		return l.integer(t, start, 0)
	}
	l.digits()
	if afterDot {
		return l.integer(t, start, 10)
	}
	float := false
	if l.off < len(l.src) && l.src[l.off] == '.' && l.digitAt(l.off+1) {
		float = true
		l.off++
		l.digits()
	}
	if e := l.off; e < len(l.src) && (l.src[e] == 'e' || l.src[e] == 'E') {
		if l.digitAt(e+1) || e+1 < len(l.src) && strings.IndexByte("+-", l.src[e+1]) >= 0 && l.digitAt(e+2) {
			float = true
			l.off += 2
			l.digits()
		}
	}
	if !float {
		return l.integer(t, start, 10)
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(l.src[start:l.off], "_", ""), 64)
	if err != nil || math.IsInf(f, 0) {
		return t, failf(CodeSyntax, "the number %s is out of range", clip(l.src[start:l.off]))
	}
	t.value = f
	return t, nil
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func (l *lexer) integer(t token, start, base int) (token, error) {
	text := l.src[start:l.off]
	digits := text
	if base == 10 {
		digits = strings.ReplaceAll(text, "_", "")
		if len(digits) > 1 && digits[0] == '0' && strings.Trim(digits, "0") != "" && !l.indexBefore(start) {
			e := failf(CodeSyntax, "the number %s has a leading zero", clip(text))
			e.Hint = "quote it if it is text"
			return t, e
		}
	}
	n, err := strconv.ParseInt(digits, base, 64)
	if err != nil {
		e := failf(CodeSyntax, "%s is not a 64-bit integer", clip(text))
		e.Hint = "quote it if it is text"
		return t, e
	}
	t.value = n
	return t, nil
}

func (l *lexer) indexBefore(start int) bool { return start > 0 && l.src[start-1] == '.' }

// operators, longest first where one is the prefix of another.
var operators = [...]string{"**", "//", "==", "!=", "<=", ">=",
	"+", "-", "*", "/", "%", "~", "<", ">", "=", ".", ",", ":", "|", "(", ")", "[", "]", "{", "}"}

func (l *lexer) operator(start, size int) (token, error) {
	for _, op := range operators {
		if !strings.HasPrefix(l.src[start:], op) {
			continue
		}
		l.off += len(op)
		switch op {
		case "(", "[", "{":
			l.nesting++
		case ")", "]", "}":
			l.nesting = max(0, l.nesting-1) // the parser reports the stray bracket
		case ".":
			l.dot = true
		}
		return token{kind: tokenOp, text: op, off: start}, nil
	}
	e := failf(CodeSyntax, "unexpected character %s", strconv.Quote(l.src[start:start+size]))
	switch l.src[start] {
	case '&':
		e.Hint = "write and"
	case '!':
		e.Hint = "write not"
	case '$':
		e.Hint = "names are written bare here: params.x"
	case '?':
		e.Hint = "write a if condition else b"
	}
	return token{off: start}, e
}

func (l *lexer) quoted(start int) (token, error) {
	quote := l.src[start]
	escaped := false
	for i := start + 1; i < len(l.src); i++ {
		switch l.src[i] {
		case '\\':
			escaped = true
			i++
		case quote:
			l.off = i + 1
			text := l.src[start+1 : i]
			if escaped {
				var err error
				if text, err = unescape(text); err != nil {
					return token{off: start}, err
				}
			}
			return token{kind: tokenString, text: text, off: start}, nil
		}
	}
	return token{off: start}, failf(CodeSyntax, "the string is not closed: %c is missing", quote)
}

// simpleEscapes are Python's one-character escapes.
var simpleEscapes = map[byte]string{'n': "\n", 't': "\t", 'r': "\r", '\\': "\\", '\'': "'", '"': "\"",
	'a': "\a", 'b': "\b", 'f': "\f", 'v': "\v", '\n': ""}

// unescape decodes Python's string escapes; an unknown one stays as it is, as in Python.
func unescape(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		if text, ok := simpleEscapes[s[i]]; ok {
			b.WriteString(text)
			continue
		}
		digits, base, skip := 0, 16, 1
		switch s[i] {
		case 'x':
			digits = 2
		case 'u':
			digits = 4
		case 'U':
			digits = 8
		case '0', '1', '2', '3', '4', '5', '6', '7':
			base, skip = 8, 0
			for digits < 3 && i+digits < len(s) && s[i+digits] >= '0' && s[i+digits] <= '7' {
				digits++
			}
		default:
			b.WriteByte('\\')
			b.WriteByte(s[i])
			continue
		}
		end := i + skip + digits
		if end > len(s) {
			return "", failf(CodeSyntax, `the escape \%s is cut short`, clip(s[i:]))
		}
		n, err := strconv.ParseUint(s[i+skip:end], base, 32)
		if err != nil || !utf8.ValidRune(rune(n)) {
			return "", failf(CodeSyntax, `\%s is not a character`, clip(s[i:end]))
		}
		b.WriteRune(rune(n))
		i = end - 1
	}
	return b.String(), nil
}
