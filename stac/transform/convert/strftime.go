package convert

import (
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
)

// Clock reads and writes date-times of one form. The zero value reads the forms of Time without a format, in UTC.
type Clock struct {
	Format string         // strftime: %d.%m.%Y %H:%M. Defaults to ISO 8601 as it is met with
	Zone   *time.Location // of times that do not say theirs. Defaults to UTC
}

const directives = "%Y %y %m %d %e %j %H %I %M %S %f %p %b %B %a %A %z %Z %s %T %D %F %R %n %t %%"

// CheckFormat reports a strftime directive that cannot be read. Errors are CodeInvalid.
func CheckFormat(format string) error {
	for rest := format; ; {
		i := strings.IndexByte(rest, '%')
		if i < 0 {
			return nil
		}
		d, after := directive(rest[i+1:])
		if d == 0 || !strings.Contains(directives, "%"+string(d)) {
			return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "format " + strconv.Quote(format) + ": " + strconv.Quote(rest[i:min(i+2, len(rest))]) + " is not known",
				Hint: "known are " + directives}
		}
		rest = after
	}
}

// directive takes the letter behind a %, without the flags - and _ that only matter for writing.
func directive(rest string) (byte, string) {
	if len(rest) > 1 && (rest[0] == '-' || rest[0] == '_') {
		rest = rest[1:]
	}
	if rest == "" {
		return 0, ""
	}
	return rest[0], rest[1:]
}

// moment is the parts of a time read so far.
type moment struct {
	year, month, day, yearDay int
	hour, minute, sec, nano   int
	half                      int // 1: AM, 2: PM, 0: 24 hours
	zone                      *time.Location
	epoch                     *int64
}

// parse reads text as the format says.
func (c Clock) parse(text string) (time.Time, error) {
	m := moment{year: 1970, month: 1, day: 1, zone: c.zone()}
	format, rest := c.Format, text
	for format != "" {
		switch {
		case format[0] == ' ': // any white space, as strptime has it
			format = strings.TrimLeft(format, " ")
			rest = strings.TrimLeft(rest, " \t\r\n")
		case format[0] != '%':
			if rest == "" || rest[0] != format[0] {
				return time.Time{}, c.wrong(text)
			}
			format, rest = format[1:], rest[1:]
		default:
			d, after := directive(format[1:])
			if long, ok := combined[d]; ok {
				format = long + after
				continue
			}
			var ok bool
			if rest, ok = m.read(d, rest); !ok {
				return time.Time{}, c.wrong(text)
			}
			format = after
		}
	}
	if strings.TrimSpace(rest) != "" {
		return time.Time{}, c.wrong(text)
	}
	t, ok := m.time()
	if !ok {
		return time.Time{}, c.wrong(text)
	}
	return t, nil
}

func (c Clock) zone() *time.Location {
	if c.Zone == nil {
		return time.UTC
	}
	return c.Zone
}

func (c Clock) wrong(text string) error {
	return bad(text, "is not a time of the form "+c.Format, "")
}

var combined = map[byte]string{'T': "%H:%M:%S", 'D': "%m/%d/%y", 'F': "%Y-%m-%d", 'R': "%H:%M", 'n': " ", 't': " "}

var (
	months   = []string{"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"}
	weekdays = []string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}
)

// read consumes the text of one directive. It is a table of directives.
func (m *moment) read(d byte, rest string) (string, bool) {
	switch d {
	case 'Y':
		return number(rest, 4, &m.year, 0, 9999)
	case 'y':
		rest, ok := number(rest, 2, &m.year, 0, 99)
		if m.year += 1900; m.year < 1969 { // as POSIX has it
			m.year += 100
		}
		return rest, ok
	case 'm':
		return number(rest, 2, &m.month, 1, 12)
	case 'd', 'e':
		return number(strings.TrimLeft(rest, " "), 2, &m.day, 1, 31)
	case 'j':
		return number(rest, 3, &m.yearDay, 1, 366)
	case 'H':
		return number(rest, 2, &m.hour, 0, 23)
	case 'I':
		return number(rest, 2, &m.hour, 1, 12)
	case 'M':
		return number(rest, 2, &m.minute, 0, 59)
	case 'S':
		return number(rest, 2, &m.sec, 0, 60)
	case 'f':
		return m.fraction(rest)
	case 'p':
		var rank int
		rest, ok := word(rest, []string{"am", "pm"}, 2, &rank)
		m.half = rank
		return rest, ok
	case 'b', 'B':
		return word(rest, months, 3, &m.month)
	case 'a', 'A':
		var ignored int
		return word(rest, weekdays, 3, &ignored)
	case 'z', 'Z':
		return m.offset(rest)
	case 's':
		return m.seconds(rest)
	case '%':
		return strings.CutPrefix(rest, "%")
	}
	return rest, false
}

// number takes up to width digits.
func number(rest string, width int, to *int, low, high int) (string, bool) {
	n, i := 0, 0
	for i < width && i < len(rest) && rest[i] >= '0' && rest[i] <= '9' {
		n = n*10 + int(rest[i]-'0')
		i++
	}
	*to = n
	return rest[i:], i > 0 && n >= low && n <= high
}

// word takes a name, in full or its first letters, and gives its rank from 1.
func word(rest string, names []string, short int, to *int) (string, bool) {
	for i, name := range names {
		for _, n := range []int{len(name), short} {
			if len(rest) >= n && strings.EqualFold(rest[:n], name[:n]) {
				*to = i + 1
				return rest[n:], true
			}
		}
	}
	return rest, false
}

func (m *moment) fraction(rest string) (string, bool) {
	i, n, scale := 0, 0, 1_000_000_000
	for ; i < len(rest) && rest[i] >= '0' && rest[i] <= '9'; i++ {
		if scale > 1 {
			scale /= 10
			n += int(rest[i]-'0') * scale
		}
	}
	m.nano = n
	return rest[i:], i > 0
}

func (m *moment) seconds(rest string) (string, bool) {
	digits := strings.TrimLeft(strings.TrimPrefix(rest, "-"), "0123456789")
	n, err := strconv.ParseInt(rest[:len(rest)-len(digits)], 10, 64)
	m.epoch = &n
	return digits, err == nil && n >= earliest && n <= latest
}

// offset takes Z, UTC, GMT or +hh[:]mm.
func (m *moment) offset(rest string) (string, bool) {
	for _, name := range []string{"UTC", "GMT", "Z"} {
		if len(rest) >= len(name) && strings.EqualFold(rest[:len(name)], name) {
			m.zone = time.UTC
			return rest[len(name):], true
		}
	}
	if rest == "" || rest[0] != '+' && rest[0] != '-' {
		return rest, false
	}
	var hours, minutes int
	after, ok := number(rest[1:], 2, &hours, 0, 23)
	if !ok {
		return rest, false
	}
	if after = strings.TrimPrefix(after, ":"); after != "" && after[0] >= '0' && after[0] <= '9' {
		if after, ok = number(after, 2, &minutes, 0, 59); !ok {
			return rest, false
		}
	}
	seconds := hours*3600 + minutes*60
	if rest[0] == '-' {
		seconds = -seconds
	}
	m.zone = time.FixedZone("", seconds)
	return after, true
}

// time builds the time; a day that does not exist is refused.
func (m *moment) time() (time.Time, bool) {
	if m.epoch != nil {
		return time.Unix(*m.epoch, int64(m.nano)).UTC(), true
	}
	switch {
	case m.half != 0 && (m.hour < 1 || m.hour > 12):
		return time.Time{}, false
	case m.half == 1 && m.hour == 12:
		m.hour = 0
	case m.half == 2 && m.hour < 12:
		m.hour += 12
	}
	if m.yearDay > 0 {
		t := time.Date(m.year, 1, m.yearDay, m.hour, m.minute, m.sec, m.nano, m.zone)
		return t, t.Year() == m.year
	}
	day := time.Date(m.year, time.Month(m.month), m.day, 0, 0, 0, 0, time.UTC)
	return time.Date(m.year, time.Month(m.month), m.day, m.hour, m.minute, m.sec, m.nano, m.zone), day.Day() == m.day
}
