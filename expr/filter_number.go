package expr

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// numberFilters calculate.
var numberFilters = map[string]*function{
	"abs":   {types: typing{takes: NumberKinds, gives: IntKind | FloatKind}, call: filterAbs},
	"int":   {types: typing{like: converted(IntKind)}, call: filterInt, params: []param{opt("default", notGiven{}), opt("base", 10)}},
	"float": {types: typing{like: converted(FloatKind)}, call: filterFloat, params: []param{opt("default", notGiven{})}},
	"round": {types: typing{takes: NumberKinds, gives: IntKind | FloatKind}, call: filterRound, params: []param{opt("precision", 0), opt("method", "common")}},
}

func filterAbs(_ *state, in any, _ *args) any {
	n, ok := number(in)
	switch {
	case !ok:
		panic(failf(CodeType, "abs needs a number, not %s", typeName(in)))
	case n.isFloat:
		return math.Abs(n.f)
	case n.i < 0:
		return mustOf(negate(n.i))
	}
	return n.i
}

// notGiven is the value of an optional argument that is left out, where none would be a value like any other.
type notGiven struct{}

// noNumber is the result of int and float for a value that is no number: the default, if given. The error shows a
// short text unless it derives from a secret.
func noNumber(st *state, in any, a *args, zero any) any {
	given := a.values[0]
	switch _, without := given.(notGiven); {
	case !without:
		return given
	case st.old():
		return zero
	}
	what := typeName(in)
	if s, ok := in.(string); ok && len(s) <= 60 && !st.marked {
		what = strconv.Quote(s)
	}
	e := failf(CodeValue, "%s: %s is not a number", a.name, what)
	e.Hint = fmt.Sprintf("%s(default=%s) gives %s instead", a.name, scalarText(zero), scalarText(zero))
	panic(e)
}

// filterInt is Jinja2's int, but a value that is no number is an error without a default.
func filterInt(st *state, in any, a *args) any {
	if n, ok := number(in); ok {
		if !n.isFloat {
			return n.i
		}
		if f := math.Trunc(n.f); f >= -1<<63 && f < 1<<63 {
			return int64(f)
		}
		if math.IsNaN(n.f) || math.IsInf(n.f, 0) {
			return noNumber(st, in, a, int64(0))
		}
		panic(overflow("int"))
	}
	s, ok := in.(string)
	if !ok {
		return noNumber(st, in, a, int64(0))
	}
	base := a.int(1, 10)
	if base != 0 && (base < 2 || base > 36) {
		panic(failf(CodeValue, "int: base must be 0 or between 2 and 36"))
	}
	digits, ok := cleanDigits(s, base)
	if !ok {
		return noNumber(st, in, a, int64(0))
	}
	i, err := strconv.ParseInt(digits, base, 64)
	if err == nil {
		return i
	}
	if e, ok := err.(*strconv.NumError); ok && e.Err == strconv.ErrRange {
		panic(overflow("int"))
	}
	if f, err := strconv.ParseFloat(digits, 64); err == nil && math.Abs(f) < 1<<63 && !strings.ContainsAny(digits, "xXpP") {
		return int64(f)
	}
	return noNumber(st, in, a, int64(0))
}

// cleanDigits removes the characters that Python's int allows around and inside digits.
func cleanDigits(s string, base int) (string, bool) {
	s = strings.TrimSpace(s)
	if len(s) > 400 || strings.HasPrefix(s, "_") || strings.HasSuffix(s, "_") || strings.Contains(s, "__") {
		return "", false
	}
	s = strings.ReplaceAll(s, "_", "")
	prefixes := map[int]string{2: "0b", 8: "0o", 16: "0x"}
	sign := strings.TrimRight(s[:min(1, len(s))], "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.")
	if p := prefixes[base]; p != "" && strings.HasPrefix(strings.ToLower(s[len(sign):]), p) {
		s = sign + s[len(sign)+2:]
	}
	return s, true
}

func filterFloat(st *state, in any, a *args) any {
	if n, ok := number(in); ok {
		return n.float()
	}
	if s, ok := in.(string); ok && len(s) <= 400 && !strings.ContainsAny(s, "xXpP") {
		f, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(s), "_", ""), 64)
		if e, isNum := err.(*strconv.NumError); err == nil || isNum && e.Err == strconv.ErrRange {
			return f
		}
	}
	return noNumber(st, in, a, 0.0)
}

// filterRound rounds to even at an exact half, as Python does; an integer stays one.
func filterRound(_ *state, in any, a *args) any {
	n, ok := number(in)
	if !ok {
		panic(failf(CodeType, "round needs a number, not %s", typeName(in)))
	}
	precision := a.int(0, 0)
	if precision < -300 || precision > 300 {
		panic(failf(CodeValue, "round: precision must be between -300 and 300"))
	}
	scale := math.Pow(10, float64(precision))
	switch a.values[1] {
	case "ceil":
		return math.Ceil(n.float()*scale) / scale
	case "floor":
		return math.Floor(n.float()*scale) / scale
	case "common":
	default:
		panic(failf(CodeValue, `round: method must be "common", "ceil" or "floor"`))
	}
	switch {
	case !n.isFloat && precision >= 0:
		return n.i
	case !n.isFloat:
		return roundInt(n.i, -precision)
	case precision < 0:
		return math.RoundToEven(n.f*scale) / scale
	}
	f, _ := strconv.ParseFloat(strconv.FormatFloat(n.f, 'f', precision, 64), 64)
	return f
}

func roundInt(i int64, digits int) any {
	if digits > 18 {
		return int64(0)
	}
	unit := int64(1)
	for range digits {
		unit *= 10
	}
	quotient, remainder := i/unit, i%unit
	half := cmpHalf(magnitude(remainder), uint64(unit))
	if half > 0 || half == 0 && quotient%2 != 0 {
		if i < 0 {
			quotient--
		} else {
			quotient++
		}
	}
	rounded, ok := multiply(quotient, unit)
	if !ok {
		panic(overflow("round"))
	}
	return rounded
}

// cmpHalf compares remainder with half of unit.
func cmpHalf(remainder, unit uint64) int {
	switch {
	case 2*remainder > unit:
		return 1
	case 2*remainder < unit:
		return -1
	}
	return 0
}
