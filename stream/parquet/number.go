package parquet

import (
	"bytes"
	"encoding/base64"
	"math"
	"math/big"
	"strconv"
	"time"

	"github.com/stepwell/stepwell/item"
)

// whole reports whether a JSON number is written as a whole number.
func whole(text []byte) bool { return !bytes.ContainsAny(text, ".eE") }

// int64Of is a number as an Int, and whether it is one.
func int64Of(text []byte) (int64, bool) {
	if !whole(text) {
		return 0, false
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	return n, err == nil
}

// doubleOf is a number as a Double, and whether it may be one: a whole number must read back with the digits that
// it came with, or be held exactly; a fraction becomes the nearest double.
func doubleOf(text []byte) (float64, bool) {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return 0, false
	}
	return f, !whole(text) || holds(f, text)
}

// fitsDouble reports the ok of doubleOf, mostly without parsing the number.
func fitsDouble(text []byte) bool {
	if !bytes.ContainsAny(text, "eE") && (len(text) <= 15 || len(text) <= 200 && bytes.IndexByte(text, '.') > 0) {
		return true
	}
	_, ok := doubleOf(text)
	return ok
}

// safe is the first whole number whose successor is no double.
const safe = 1 << 53

// holds reports whether a double keeps the whole number of the text: it equals the number exactly, or the text is its
// shortest form, as Each and others write it (12345678901234567000).
func holds(f float64, text []byte) bool {
	if f > -safe && f < safe {
		return true
	}
	var shortest [32]byte
	if math.Abs(f) < 1e25 && bytes.Equal(strconv.AppendFloat(shortest[:0], f, 'f', -1, 64), text) {
		return true
	}
	exact, ok := new(big.Int).SetString(string(text), 10)
	if !ok {
		return false
	}
	got, _ := big.NewFloat(f).Int(nil)
	return got.Cmp(exact) == 0
}

// micros is a time of RFC 3339 in microseconds since 1970, and whether it is one. A blank between date and
// time is let through, as RFC 3339 §5.6 does.
func micros(text []byte) (int64, bool) {
	s := string(text)
	if len(s) > 10 && (s[10] == ' ' || s[10] == 't') {
		s = s[:10] + "T" + s[11:]
	}
	if n := len(s); n > 0 && s[n-1] == 'z' {
		s = s[:n-1] + "Z"
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return 0, false
	}
	return t.UnixMicro(), true
}

// encode makes the bytes of a Binary.
func (t *Type) encode(dst, text []byte) ([]byte, error) {
	v, err := item.Parse(text)
	if err != nil {
		return nil, err
	}
	if t.Encode != nil {
		return t.Encode(dst, v)
	}
	s, ok := v.Str()
	if !ok {
		return nil, misfit(v.Kind().String() + " is not base64")
	}
	out, err := base64.StdEncoding.AppendDecode(dst, []byte(s))
	if err != nil {
		return nil, misfit("no base64 text: " + err.Error())
	}
	return out, nil
}
