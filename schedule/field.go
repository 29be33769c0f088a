package schedule

import (
	"fmt"
	"strconv"
	"strings"
)

// field describes one place of an expression.
type field struct {
	name    string
	low     int
	high    int      // highest value that may be written
	star    int      // highest value that * stands for
	names   []string // of the values from low on
	example string
}

var (
	secondField  = field{name: "second", high: 59, star: 59, example: "0, */15 or 10-40"}
	minuteField  = field{name: "minute", high: 59, star: 59, example: "0, */15 or 10-40"}
	hourField    = field{name: "hour", high: 23, star: 23, example: "9, */6 or 8-18"}
	dateField    = field{name: "day of month", low: 1, high: 31, star: 31, example: "1, 10-20, L, L-3 or 15W"}
	monthField   = field{name: "month", low: 1, high: 12, star: 12, names: strings.Fields("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC"), example: "1, 6-8 or JAN"}
	weekdayField = field{name: "day of week", high: 7, star: 6, names: strings.Fields("SUN MON TUE WED THU FRI SAT"), example: "1, MON-FRI, FRIL or MON#2"}
)

// set reads a list.
func (f *field) set(t token) (uint64, *failure) {
	var set uint64
	for _, item := range t.split(",") {
		part, fail := f.item(item)
		if fail != nil {
			return 0, fail
		}
		set |= part
	}
	return set, nil
}

// item reads one member of a list: a value, a range or a *, with or without a step.
func (f *field) item(t token) (uint64, *failure) {
	if t.text == "" {
		return 0, t.fail("remove the comma, or write a value beside it", "the %s has an empty place in its list", f.name)
	}
	body, stepText, stepped := strings.Cut(t.text, "/")
	base := token{body, t.at}
	low, high, fail := f.span(base, stepped)
	if fail != nil {
		return 0, fail
	}
	step := 1
	if stepped {
		if step, fail = f.step(token{stepText, t.at + len(body) + 1}, high-low); fail != nil {
			return 0, fail
		}
	}
	var set uint64
	for v := low; v <= high; v += step {
		set |= 1 << v
	}
	return set, nil
}

// span reads the part before a step.
func (f *field) span(t token, stepped bool) (low, high int, fail *failure) {
	switch {
	case t.text == "*":
		return f.low, f.star, nil
	case t.text == "?":
		return 0, 0, t.fail("write *", "? stands only for a day, not for the %s", f.name)
	case strings.EqualFold(t.text, "H"):
		return 0, 0, t.fail("write a value, and give the schedule a jitter", "H is not supported")
	}
	from, to, ranged := strings.Cut(t.text, "-")
	if low, fail = f.value(token{from, t.at}); fail != nil {
		return 0, 0, fail
	}
	switch {
	case !ranged && stepped:
		return low, max(low, f.star), nil
	case !ranged:
		return low, low, nil
	}
	end := token{to, t.at + len(from) + 1}
	if high, fail = f.value(end); fail != nil {
		return 0, 0, fail
	}
	if high == 0 && f == &weekdayField && strings.EqualFold(to, "SUN") {
		high = 7
	}
	if high < low {
		return 0, 0, t.fail(f.wrapHint(from, to, low, high), "the range %s runs backwards", clip(t.text))
	}
	return low, high, nil
}

// wrapHint says how to write a range that goes past the end of a field.
func (f *field) wrapHint(from, to string, low, high int) string {
	first, last := strconv.Itoa(f.low), strconv.Itoa(f.star)
	if f.names != nil && len(from) == 3 {
		first, last = f.names[0], f.names[len(f.names)-1]
	}
	head, tail := from+"-"+last, first+"-"+to
	if low >= f.star {
		head = from
	}
	if high == f.low {
		tail = to
	}
	return fmt.Sprintf("write %s,%s if it is meant to go past the end", head, tail)
}

func (f *field) step(t token, span int) (int, *failure) {
	step, ok := number(t.text)
	switch {
	case !ok:
		return 0, t.fail("write */5, 10-50/5 or the like", "%q is not a step", clip(t.text))
	case step == 0:
		return 0, t.fail("leave the step out, or write 1 or more", "a step of 0 goes nowhere")
	case step > max(span, 1):
		return 0, t.fail("leave the step out; for longer pauses use @every", "the step %s goes past the end of the range it steps through", clip(t.text))
	}
	return step, nil
}

// value reads a number or a name.
func (f *field) value(t token) (int, *failure) {
	for i, name := range f.names {
		if strings.EqualFold(name, t.text) {
			return f.low + i, nil
		}
	}
	n, ok := number(t.text)
	if !ok {
		return 0, f.notValue(t)
	}
	if n < f.low || n > f.high {
		hint := ""
		switch {
		case n == f.high+1 && f.high == f.star && f.low == 0:
			hint = fmt.Sprintf("the first %s is 0", f.name)
		case n == 0:
			hint = fmt.Sprintf("the first %s is %d", f.name, f.low)
		default:
			hint = fmt.Sprintf("for example %s", f.example)
		}
		return 0, t.fail(hint, "%s %s is not between %d and %d", f.name, clip(t.text), f.low, f.high)
	}
	return n, nil
}

func (f *field) notValue(t token) *failure {
	hint := fmt.Sprintf("for example %s", f.example)
	if len(t.text) >= 3 && len(t.text) < 20 {
		for _, name := range f.names {
			if strings.EqualFold(name, t.text[:3]) {
				hint = "write " + name
			}
		}
	}
	if t.text == "" {
		return t.fail(hint, "the %s lacks a value", f.name)
	}
	return t.fail(hint, "%q is not a %s", clip(t.text), f.name)
}

// number reads up to four digits and nothing else.
func number(text string) (int, bool) {
	if text == "" || len(text) > 4 {
		return 0, false
	}
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}

// open reports whether a day field leaves the choice to the other one, as in Vixie cron.
func (t token) open() bool { return strings.HasPrefix(t.text, "*") || t.text == "?" }

// parseDates reads the day of month.
func (d *days) parseDates(t token) *failure {
	d.monthOpen = t.open()
	if t.text == "?" {
		t.text = "*"
	}
	for _, item := range t.split(",") {
		text := strings.ToUpper(item.text)
		switch {
		case text == "L":
			d.fromLast |= 1
		case text == "LW" || text == "WL":
			d.lastWeekday = true
		case strings.HasPrefix(text, "L-"):
			n, ok := number(text[2:])
			if !ok || n > 30 {
				return item.from(2).fail("L-3 is three days before the last", "%q is not a number of days from 0 to 30", clip(item.text[2:]))
			}
			d.fromLast |= 1 << n
		case strings.HasSuffix(text, "W"):
			n, fail := dateField.value(token{item.text[:len(item.text)-1], item.at})
			if fail != nil {
				return fail
			}
			d.nearest |= 1 << n
		default:
			set, fail := dateField.item(item)
			if fail != nil {
				return fail
			}
			d.dates |= uint32(set)
		}
	}
	return nil
}

// parseWeekdays reads the day of week.
func (d *days) parseWeekdays(t token) *failure {
	d.weekOpen = t.open()
	if t.text == "?" {
		t.text = "*"
	}
	for _, item := range t.split(",") {
		day, count, counted := strings.Cut(item.text, "#")
		switch last := len(item.text) - 1; {
		case strings.EqualFold(item.text, "L"):
			return item.fail("write SAT for every Saturday, SATL for the last one of the month, or L as the day of month", "L needs a weekday before it")
		case strings.HasSuffix(strings.ToUpper(item.text), "W") && len(item.text) > 1:
			return item.fail("write 15W as the day of month, or MON-FRI here", "W belongs to the day of month")
		case counted:
			bit, fail := weekday(token{day, item.at})
			if fail != nil {
				return fail
			}
			n, ok := number(count)
			if !ok || n < 1 || n > 5 {
				return item.from(len(day)+1).fail("MON#2 is the second Monday; for the last one write MONL", "%q is not a number from 1 to 5", clip(count))
			}
			d.nth[n] |= bit
		case last > 0 && (item.text[last] == 'L' || item.text[last] == 'l'):
			bit, fail := weekday(token{item.text[:last], item.at})
			if fail != nil {
				return fail
			}
			d.last |= bit
		default:
			set, fail := weekdayField.item(item)
			if fail != nil {
				return fail
			}
			d.weekdays |= uint8(set&0x7f | set>>7)
		}
	}
	return nil
}

// weekday reads one day of the week as a set, where 7 is Sunday.
func weekday(t token) (uint8, *failure) {
	n, fail := weekdayField.value(t)
	return 1 << (n % 7), fail
}
