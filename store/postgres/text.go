package postgres

import (
	"bytes"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"
)

// escape begins a text that PostgreSQL would refuse as it is: one with a NUL or with bytes that are not UTF-8.
const escape = '\x01'

const hexDigits = "0123456789abcdef"

// plain reports whether a text is stored as it is.
func plain(s []byte) bool {
	return len(s) == 0 || s[0] != escape && bytes.IndexByte(s, 0) < 0 && utf8.Valid(s)
}

// encode returns a text as it is stored: nearly always itself. Otherwise each odd byte is written as \x01 and two hexadecimal
// digits, after a \x01 at the beginning, so that equal texts are stored as equal ones and come back as they were.
func encode(s string) string {
	if plain([]byte(s)) {
		return s
	}
	return string(appendEscaped(nil, []byte(s)))
}

func appendEscaped(to, s []byte) []byte {
	to = append(to, escape)
	for len(s) > 0 {
		r, n := utf8.DecodeRune(s)
		if r == utf8.RuneError && n == 1 || r == 0 || r == escape {
			to = append(to, escape, hexDigits[s[0]>>4], hexDigits[s[0]&15])
		} else {
			to = append(to, s[:n]...)
		}
		s = s[n:]
	}
	return to
}

// decode is encode in the other direction.
func decode(s string) string {
	if s == "" || s[0] != escape {
		return s
	}
	var b strings.Builder
	for s = s[1:]; s != ""; {
		i := strings.IndexByte(s, escape)
		if i < 0 || len(s) < i+3 {
			b.WriteString(s)
			break
		}
		b.WriteString(s[:i])
		b.WriteByte(byte(strings.IndexByte(hexDigits, s[i+1])<<4 | strings.IndexByte(hexDigits, s[i+2])))
		s = s[i+3:]
	}
	return b.String()
}

// The types that columns are scanned into: NULL is the zero value.
type (
	text    string // of a stored text
	value   []byte // JSON of a stored text; nil for NULL
	number  int64
	instant time.Time // of µs
)

// ScanText implements pgtype.TextScanner.
func (t *text) ScanText(v pgtype.Text) error {
	*t = text(decode(v.String))
	return nil
}

// ScanText implements pgtype.TextScanner.
func (j *value) ScanText(v pgtype.Text) error {
	*j = nil
	if v.Valid {
		*j = []byte(decode(v.String))
	}
	return nil
}

// ScanInt64 implements pgtype.Int64Scanner.
func (n *number) ScanInt64(v pgtype.Int8) error {
	*n = number(v.Int64)
	return nil
}

// ScanInt64 implements pgtype.Int64Scanner.
func (t *instant) ScanInt64(v pgtype.Int8) error {
	*t = instant{}
	if v.Valid {
		*t = instant(time.UnixMicro(v.Int64).UTC())
	}
	return nil
}

// time returns the instant as a time.
func (t instant) time() time.Time { return time.Time(t) }

// orNull is NULL for "".
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	s = encode(s)
	return &s
}

// jsonOrNull is NULL for nil.
func jsonOrNull(raw []byte) *string {
	if raw == nil {
		return nil
	}
	s := encode(string(raw))
	return &s
}

// texts are encoded, for a parameter that is a list.
func texts(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = encode(s)
	}
	return out
}
