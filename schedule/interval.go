package schedule

import (
	"math"
	"strings"
)

// interval fires on a grid, in Unix seconds.
type interval struct{ origin, step int64 }

func (i interval) next(from int64) (int64, bool) {
	behind := (from - i.origin) % i.step
	if behind < 0 {
		behind += i.step
	}
	if behind > 0 {
		from += i.step - behind
	}
	return from, true
}

// longestInterval is ten years, in seconds.
const longestInterval = 3653 * daySeconds

var units = map[byte]int64{'w': 7 * daySeconds, 'd': daySeconds, 'h': 3600, 'm': 60, 's': 1}

// parseEvery reads an interval, with or without @every before it.
func (s *Schedule) parseEvery(field, text string) (rule, *Error) {
	body := strings.TrimLeft(text, blank)
	if tokens := words(body); len(tokens) > 0 && strings.EqualFold(tokens[0].text, "@every") {
		body = strings.TrimLeft(body[len("@every"):], blank)
	}
	step, f := seconds(token{strings.TrimRight(body, blank), len(text) - len(body)})
	if f != nil {
		return nil, (&Error{Message: f.message, Hint: f.hint}).at(field, text, f.offset)
	}
	i := interval{step: step}
	if !s.spec.NotBefore.IsZero() {
		i.origin = s.first
	}
	return i, nil
}

// seconds reads numbers with units, the largest unit first: 1h30m.
func seconds(t token) (int64, *failure) {
	const example = "write it as 90s, 15m, 1h30m or 1d"
	if t.text == "" {
		return 0, t.fail(example, "has no interval")
	}
	var total, above int64 = 0, math.MaxInt64
	for t.text != "" {
		digits := 0
		for digits < len(t.text) && t.text[digits] >= '0' && t.text[digits] <= '9' {
			digits++
		}
		n, ok := int64(0), digits > 0 && digits <= 9
		for _, c := range []byte(t.text[:min(digits, 9)]) {
			n = 10*n + int64(c-'0')
		}
		if !ok {
			return 0, t.fail(example, "%q is not an interval", clip(t.text))
		}
		unit := t.from(digits)
		if unit.text == "" {
			return 0, unit.fail(example, "the number %d has no unit", n)
		}
		size := units[unit.text[0]|0x20]
		if size == 0 || len(unit.text) > 1 && unit.text[0]|0x20 == 'm' && unit.text[1]|0x20 == 's' {
			return 0, unit.fail("the units are w, d, h, m and s, in whole numbers; a second is the shortest",
				"%q is not a unit of whole seconds", clip(strings.TrimRight(unit.text, "0123456789")))
		}
		if size >= above {
			return 0, t.fail("write the larger units first and each once, as in 1h30m", "%q is out of order", clip(t.text))
		}
		total, above, t = total+n*size, size, unit.from(1)
		if total > longestInterval {
			return 0, unit.fail("the longest interval is ten years (3653d)", "is too long")
		}
	}
	if total == 0 {
		return 0, t.fail("the shortest is 1s", "an interval of 0 never ends")
	}
	return total, nil
}
