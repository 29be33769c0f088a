package parquet

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// leafOf chooses how the values of a leaf column are written.
func leafOf(t parquet.Type) func([]byte, *parquet.Value) ([]byte, error) {
	if logical := t.LogicalType(); logical != nil {
		switch l := logical.Value.(type) {
		case *format.JsonType:
			return appendJSON
		case *format.StringType, *format.EnumType:
			return appendText
		case *format.DecimalType:
			return func(dst []byte, v *parquet.Value) ([]byte, error) { return appendDecimal(dst, v, int(l.Scale)) }
		case *format.DateType:
			return appendDate
		case *format.UUIDType:
			return appendUUID
		case *format.IntType:
			if !l.IsSigned {
				return appendUnsigned
			}
		case *format.TimeType:
			unit := unitOf(l.Unit)
			return func(dst []byte, v *parquet.Value) ([]byte, error) { return appendClock(dst, v, unit) }
		case *format.TimestampType:
			unit := unitOf(l.Unit)
			return func(dst []byte, v *parquet.Value) ([]byte, error) {
				n, err := integer(v)
				if err != nil {
					return nil, err
				}
				return appendTime(dst, instant(n, unit))
			}
		}
	}
	return appendPlain
}

func unitOf(u format.TimeUnit) time.Duration {
	switch u.Value.(type) {
	case *format.MilliSeconds:
		return time.Millisecond
	case *format.MicroSeconds:
		return time.Microsecond
	}
	return time.Nanosecond
}

// instant is n units since 1970.
func instant(n int64, unit time.Duration) time.Time {
	per := int64(time.Second / unit)
	return time.Unix(n/per, n%per*int64(unit)).UTC()
}

func integer(v *parquet.Value) (int64, error) {
	switch v.Kind() {
	case parquet.Int32:
		return int64(v.Int32()), nil
	case parquet.Int64:
		return v.Int64(), nil
	}
	return 0, fmt.Errorf("a value of %s, not an integer", v.Kind())
}

func appendPlain(dst []byte, v *parquet.Value) ([]byte, error) {
	switch v.Kind() {
	case parquet.Boolean:
		return strconv.AppendBool(dst, v.Boolean()), nil
	case parquet.Int32:
		return strconv.AppendInt(dst, int64(v.Int32()), 10), nil
	case parquet.Int64:
		return strconv.AppendInt(dst, v.Int64(), 10), nil
	case parquet.Int96:
		return appendInt96(dst, v)
	case parquet.Float:
		return appendFloat(dst, float64(v.Float()), 32), nil
	case parquet.Double:
		return appendFloat(dst, v.Double(), 64), nil
	case parquet.ByteArray, parquet.FixedLenByteArray:
		return appendBytes(dst, v.ByteArray())
	}
	return append(dst, "null"...), nil
}

// appendFloat writes the shortest digits that tell the number.
func appendFloat(dst []byte, f float64, bits int) []byte {
	switch size := math.Abs(f); {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return append(dst, "null"...)
	case size != 0 && (size < 1e-6 || size >= 1e21):
		return strconv.AppendFloat(dst, f, 'e', -1, bits)
	}
	return strconv.AppendFloat(dst, f, 'f', -1, bits)
}

// appendBytes writes bytes that may or may not be text.
func appendBytes(dst, b []byte) ([]byte, error) {
	control := func(r rune) bool { return r < ' ' && r != '\t' && r != '\n' && r != '\r' }
	if utf8.Valid(b) && bytes.IndexFunc(b, control) < 0 {
		return jsontext.AppendQuote(dst, b)
	}
	return append(base64.StdEncoding.AppendEncode(append(dst, '"'), b), '"'), nil
}

func appendText(dst []byte, v *parquet.Value) ([]byte, error) {
	dst, err := jsontext.AppendQuote(dst, v.ByteArray())
	if err != nil && !utf8.Valid(v.ByteArray()) {
		err = nil // invalid UTF-8 has been replaced
	}
	return dst, err
}

func appendJSON(dst []byte, v *parquet.Value) ([]byte, error) {
	text := jsontext.Value(v.ByteArray()).Clone()
	if text.Compact() != nil { // it says JSON, but is none
		return appendBytes(dst, v.ByteArray())
	}
	return append(dst, text...), nil
}

func appendUnsigned(dst []byte, v *parquet.Value) ([]byte, error) {
	n, err := integer(v)
	if v.Kind() == parquet.Int32 {
		n = int64(uint32(n))
	}
	return strconv.AppendUint(dst, uint64(n), 10), err
}

func appendUUID(dst []byte, v *parquet.Value) ([]byte, error) {
	b := v.ByteArray()
	if len(b) != 16 {
		return nil, errors.New("a UUID that is not 16 bytes long")
	}
	return fmt.Appendf(dst, `"%x-%x-%x-%x-%x"`, b[:4], b[4:6], b[6:8], b[8:10], b[10:]), nil
}

func appendDate(dst []byte, v *parquet.Value) ([]byte, error) {
	n, err := integer(v)
	if err != nil {
		return nil, err
	}
	t := time.Unix(n*24*3600, 0).UTC()
	if y := t.Year(); y < 0 || y > 9999 {
		return nil, fmt.Errorf("a date in year %d", y)
	}
	return append(t.AppendFormat(append(dst, '"'), time.DateOnly), '"'), nil
}

func appendClock(dst []byte, v *parquet.Value, unit time.Duration) ([]byte, error) {
	n, err := integer(v)
	if err != nil {
		return nil, err
	}
	if n < 0 || n >= int64(24*time.Hour/unit) {
		return nil, errors.New("a time of day beyond the day")
	}
	t := time.Unix(0, n*int64(unit)).UTC()
	return append(t.AppendFormat(append(dst, '"'), "15:04:05.999999999"), '"'), nil
}

func appendTime(dst []byte, t time.Time) ([]byte, error) {
	if y := t.Year(); y < 0 || y > 9999 {
		return nil, fmt.Errorf("a time in year %d, which RFC 3339 cannot tell", y)
	}
	return append(t.AppendFormat(append(dst, '"'), time.RFC3339Nano), '"'), nil
}

// appendInt96 writes the timestamps of old writers: nanoseconds of the day, and the Julian day.
func appendInt96(dst []byte, v *parquet.Value) ([]byte, error) {
	const epoch = 2440588 // 1970-01-01
	raw := v.Int96()
	nanos := int64(raw[1])<<32 | int64(raw[0])
	days := int64(raw[2]) - epoch
	return appendTime(dst, time.Unix(days*24*3600+nanos/1e9, nanos%1e9).UTC())
}

// appendDecimal writes all digits.
func appendDecimal(dst []byte, v *parquet.Value, scale int) ([]byte, error) {
	n := new(big.Int)
	switch v.Kind() {
	case parquet.Int32, parquet.Int64:
		i, _ := integer(v)
		n.SetInt64(i)
	case parquet.ByteArray, parquet.FixedLenByteArray: // big-endian, two's complement
		b := v.ByteArray()
		if len(b) > 64 {
			return nil, errors.New("a decimal of more than 64 bytes")
		}
		n.SetBytes(b)
		if len(b) > 0 && b[0]&0x80 != 0 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
		}
	default:
		return nil, fmt.Errorf("a decimal of %s", v.Kind())
	}
	if scale < 0 || scale > 200 {
		return nil, fmt.Errorf("a decimal of scale %d", scale)
	}
	digits := n.Text(10)
	if scale == 0 {
		return append(dst, digits...), nil
	}
	if digits[0] == '-' {
		dst, digits = append(dst, '-'), digits[1:]
	}
	if len(digits) <= scale {
		digits = strings.Repeat("0", scale-len(digits)+1) + digits
	}
	whole := len(digits) - scale
	return append(append(append(dst, digits[:whole]...), '.'), digits[whole:]...), nil
}
