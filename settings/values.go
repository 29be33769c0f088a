package settings

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell"
)

// ByteSize is a number of bytes, written as 1048576, 512KiB, 4MiB or 1GiB.
type ByteSize int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *ByteSize) UnmarshalText(text []byte) error {
	s, unit := string(text), int64(1)
	for i, suffix := range []string{"KiB", "MiB", "GiB"} {
		if rest, ok := strings.CutSuffix(s, suffix); ok {
			s, unit = strings.TrimSpace(rest), 1<<(10*(i+1))
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return stepwell.Invalid("examples: 64KiB, 4MiB", "%q is not a size", text)
	}
	*b = ByteSize(n * unit)
	return nil
}

// String writes it as it is read.
func (b ByteSize) String() string {
	for i, suffix := range []string{"GiB", "MiB", "KiB"} {
		if unit := ByteSize(1) << (10 * (3 - i)); b >= unit && b%unit == 0 {
			return fmt.Sprintf("%d%s", b/unit, suffix)
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// decimalDigits is how many digits after the point a price may have: a token costs millionths.
const decimalDigits = 12

// Decimal is an exact amount of money in units of 1e-12. Binary fractions would not add up.
type Decimal int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Decimal) UnmarshalText(text []byte) error {
	mantissa, exponent, scientific := strings.Cut(strings.ToLower(string(text)), "e")
	shift := 0
	if scientific {
		var err error
		if shift, err = strconv.Atoi(exponent); err != nil || shift < -decimalDigits || shift > decimalDigits {
			return stepwell.Invalid("write it like 0.0025", "%q is not an amount", text)
		}
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := whole + fraction
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return stepwell.Invalid("write it like 0.0025", "%q is not an amount", text)
	}
	zeros := decimalDigits + shift - len(fraction)
	for ; zeros < 0 && strings.HasSuffix(digits, "0"); zeros++ {
		digits = strings.TrimSuffix(digits, "0")
	}
	if zeros < 0 && strings.Trim(digits, "0") != "" {
		return stepwell.Invalid("", "%q has more than %d digits after the point", text, decimalDigits)
	}
	n, err := strconv.ParseInt(digits+strings.Repeat("0", max(zeros, 0)), 10, 64)
	if err != nil {
		return stepwell.Invalid("", "%q is too large an amount", text)
	}
	*d = Decimal(n)
	return nil
}
