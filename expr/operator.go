package expr

import (
	"encoding/json"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// num is a number on its way through an operation.
type num struct {
	i       int64
	f       float64
	isFloat bool
}

func (n num) float() float64 {
	if n.isFloat {
		return n.f
	}
	return float64(n.i)
}

// number reads v as a number; booleans are 0 and 1, as in Python.
func number(v any) (num, bool) {
	switch v := v.(type) {
	case int64:
		return num{i: v}, true
	case float64:
		return num{f: v, isFloat: true}, true
	case bool:
		if v {
			return num{i: 1}, true
		}
		return num{}, true
	case json.Number:
		f, err := strconv.ParseFloat(string(v), 64)
		return num{f: f, isFloat: true}, err == nil
	}
	return num{}, false
}

func overflow(op string) error {
	return failf(CodeBudget, "the result of %s does not fit in a 64-bit integer", op)
}

func negate(v any) (any, error) {
	n, ok := number(v)
	switch {
	case !ok:
		return nil, failf(CodeType, "- needs a number, not %s", typeName(v))
	case n.isFloat:
		return -n.f, nil
	case n.i == math.MinInt64:
		return nil, overflow("-")
	}
	return -n.i, nil
}

func (st *state) arithmetic(op string, a, b any) any {
	x, okX := number(a)
	y, okY := number(b)
	if okX && okY {
		if x.isFloat || y.isFloat || op == "/" {
			return st.signedZero(op, x.float(), y.float())
		}
		return intArithmetic(op, x.i, y.i)
	}
	switch op {
	case "+":
		return st.add(a, b)
	case "*":
		if okY && !y.isFloat {
			return st.repeat(a, y.i)
		}
		if okX && !x.isFloat {
			return st.repeat(b, x.i)
		}
	case "%":
		if format, ok := a.(string); ok {
			return st.percent(format, b)
		}
	}
	e := failf(CodeType, "%s cannot be used between %s and %s", op, typeName(a), typeName(b))
	if op == "+" {
		e.Hint = "~ joins values as text"
	}
	panic(e)
}

func intArithmetic(op string, x, y int64) any {
	switch op {
	case "+":
		if sum := x + y; (sum > x) == (y > 0) {
			return sum
		}
	case "-":
		if difference := x - y; (difference < x) == (y > 0) {
			return difference
		}
	case "*":
		if product, ok := multiply(x, y); ok {
			return product
		}
	case "**":
		return power(x, y)
	case "//", "%":
		if y == 0 {
			panic(failf(CodeValue, "%s divides by zero", op))
		}
		if x == math.MinInt64 && y == -1 {
			break
		}
		quotient, remainder := x/y, x%y
		if remainder != 0 && (remainder < 0) != (y < 0) {
			quotient, remainder = quotient-1, remainder+y
		}
		if op == "%" {
			return remainder
		}
		return quotient
	}
	panic(overflow(op))
}

func multiply(x, y int64) (int64, bool) {
	high, low := bits.Mul64(magnitude(x), magnitude(y))
	negative := (x < 0) != (y < 0)
	if high != 0 || low > 1<<63 || low == 1<<63 && !negative {
		return 0, false
	}
	if negative {
		return -int64(low), true
	}
	return int64(low), true
}

func magnitude(x int64) uint64 {
	if x < 0 {
		return -uint64(x)
	}
	return uint64(x)
}

// power squares, so that it takes at most 63 rounds before it overflows or ends.
func power(x, y int64) any {
	if y < 0 {
		return floatArithmetic("**", float64(x), float64(y))
	}
	result, ok := int64(1), true
	for base := x; ; {
		if y&1 == 1 {
			if result, ok = multiply(result, base); !ok {
				panic(overflow("**"))
			}
		}
		if y >>= 1; y == 0 {
			return result
		}
		if base, ok = multiply(base, base); !ok {
			panic(overflow("**"))
		}
	}
}

func floatArithmetic(op string, x, y float64) any {
	switch op {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	case "**":
		return floatPower(x, y)
	}
	if y == 0 {
		panic(failf(CodeValue, "%s divides by zero", op))
	}
	if op == "/" {
		return x / y
	}
	remainder := math.Mod(x, y)
	if remainder != 0 && (remainder < 0) != (y < 0) {
		remainder += y
	}
	if op == "%" {
		return remainder
	}
	return math.Floor((x-remainder)/y + 0.5)
}

// signedZero is floatArithmetic with the sign that Python gives a result of zero: of % that of the divisor, of //
// that of the quotient. In revision 1 the first has the sign of the dividend, and the second none.
func (st *state) signedZero(op string, x, y float64) any {
	v := floatArithmetic(op, x, y)
	if f, ok := v.(float64); ok && f == 0 && !st.old() {
		switch op {
		case "%":
			return math.Copysign(0, y)
		case "//":
			return math.Copysign(0, x/y)
		}
	}
	return v
}

func floatPower(x, y float64) any {
	if x == 0 && y < 0 {
		panic(failf(CodeValue, "** divides by zero"))
	}
	p := math.Pow(x, y)
	switch {
	case math.IsNaN(p) && !math.IsNaN(x) && !math.IsNaN(y):
		panic(failf(CodeValue, "** of a negative number needs a whole exponent"))
	case math.IsInf(p, 0) && !math.IsInf(x, 0) && !math.IsInf(y, 0):
		panic(failf(CodeBudget, "the result of ** is too large"))
	}
	return p
}

// add is + between strings and between lists.
func (st *state) add(a, b any) any {
	switch a := a.(type) {
	case string:
		if b, ok := b.(string); ok {
			return st.join([]string{a, b}, "")
		}
	case []any:
		if b, ok := b.([]any); ok {
			st.growList(len(a) + len(b))
			return append(append(make([]any, 0, len(a)+len(b)), a...), b...)
		}
	}
	e := failf(CodeType, "+ cannot be used between %s and %s", typeName(a), typeName(b))
	e.Hint = "~ joins values as text"
	panic(e)
}

// repeat is * between a string or list and a number.
func (st *state) repeat(v any, n int64) any {
	n = max(n, 0)
	switch v := v.(type) {
	case string:
		size, ok := multiply(int64(len(v)), n)
		if !ok {
			size = math.MaxInt64
		}
		st.grow(int(size))
		return strings.Repeat(v, int(n)*min(len(v), 1))
	case []any:
		size, ok := multiply(int64(len(v)), n)
		if !ok {
			size = math.MaxInt64
		}
		st.growList(int(size))
		out := make([]any, 0, size)
		for len(out) < int(size) {
			out = append(out, v...)
		}
		return out
	}
	panic(failf(CodeType, "* cannot repeat %s", typeName(v)))
}
