package partition

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
)

// unit is a length of time of the calendar.
type unit struct {
	form   string // as people write one
	begin  func(t time.Time) time.Time
	next   func(begin time.Time, n int) time.Time
	format func(begin time.Time) string
	parse  func(text string) (time.Time, error)
}

func layout(form string) (func(time.Time) string, func(string) (time.Time, error)) {
	return func(t time.Time) string { return t.Format(form) }, func(text string) (time.Time, error) {
		t, err := time.Parse(form, text)
		if err == nil && t.Format(form) != text {
			err = fmt.Errorf("%s is not written as %s", text, form)
		}
		return t, err
	}
}

// units are the lengths by their names in Values.Every.
var units = func() map[string]unit {
	date := func(y int, m time.Month, d, h int) time.Time { return time.Date(y, m, d, h, 0, 0, 0, time.UTC) }
	hour := unit{form: "2026-03-01T05", begin: func(t time.Time) time.Time { return date(t.Year(), t.Month(), t.Day(), t.Hour()) },
		next: func(t time.Time, n int) time.Time { return t.Add(time.Duration(n) * time.Hour) }}
	hour.format, hour.parse = layout("2006-01-02T15")
	day := unit{form: "2026-03-01", begin: func(t time.Time) time.Time { return date(t.Year(), t.Month(), t.Day(), 0) },
		next: func(t time.Time, n int) time.Time { return t.AddDate(0, 0, n) }}
	day.format, day.parse = layout("2006-01-02")
	week := unit{form: "2026-W09", begin: monday, next: func(t time.Time, n int) time.Time { return t.AddDate(0, 0, 7*n) }, format: func(t time.Time) string {
		year, number := t.ISOWeek()
		return fmt.Sprintf("%04d-W%02d", year, number)
	}, parse: parseWeek}
	month := unit{form: "2026-03", begin: func(t time.Time) time.Time { return date(t.Year(), t.Month(), 1, 0) },
		next: func(t time.Time, n int) time.Time { return t.AddDate(0, n, 0) }}
	month.format, month.parse = layout("2006-01")
	year := unit{form: "2026", begin: func(t time.Time) time.Time { return date(t.Year(), 1, 1, 0) },
		next: func(t time.Time, n int) time.Time { return t.AddDate(n, 0, 0) }}
	year.format, year.parse = layout("2006")
	return map[string]unit{"hour": hour, "day": day, "week": week, "month": month, "year": year}
}()

// monday is the beginning of an ISO week.
func monday(t time.Time) time.Time {
	back := (int(t.Weekday()) + 6) % 7
	return time.Date(t.Year(), t.Month(), t.Day()-back, 0, 0, 0, 0, time.UTC)
}

func parseWeek(text string) (time.Time, error) {
	wrong := fmt.Errorf("%s is not written as 2006-W01", text)
	year, number, ok := strings.Cut(text, "-W")
	y, err := strconv.Atoi(year)
	n, err2 := strconv.Atoi(number)
	if !ok || err != nil || err2 != nil || len(year) != 4 || len(number) != 2 {
		return time.Time{}, wrong
	}
	begin := monday(time.Date(y, 1, 4, 0, 0, 0, 0, time.UTC)).AddDate(0, 0, 7*(n-1)) // 4 January is in week 1
	if gotYear, got := begin.ISOWeek(); gotYear != y || got != n {
		return time.Time{}, wrong
	}
	return begin, nil
}

// Check is what is wrong with the values: CodeInvalid, with a hint.
func (v *Values) Check() error {
	switch {
	case v.Every == "" && (v.From != "" || v.Until != ""):
		return stepwell.Invalid("every: month", "from and until need every")
	case v.Every == "" && len(v.List) == 0:
		return stepwell.Invalid("every: month with from: 2024-01, or list: [eu, us]", "there are no values")
	case v.Every == "":
		return v.checkList()
	case len(v.List) > 0:
		return stepwell.Invalid("take one of them", "list and every exclude each other")
	case v.From == "":
		return stepwell.Invalid("such as from: "+units[v.Every].form, "every needs from, the first %s", v.Every)
	}
	_, _, err := v.span(time.Unix(0, 0).UTC())
	return err
}

func (v *Values) checkList() error {
	seen := make(map[string]bool, len(v.List))
	for _, text := range v.List {
		if text == "" || seen[text] {
			return stepwell.Invalid("", "list has %q twice, or an empty text", text)
		}
		seen[text] = true
	}
	return nil
}

// span is the beginnings of the first and the last time at a moment. The last one is before the first where none is over yet.
func (v *Values) span(now time.Time) (first, last time.Time, err error) {
	u := units[v.Every]
	if first, err = u.parse(v.From); err != nil {
		return first, last, stepwell.Invalid("such as from: "+u.form, "from is no %s: %q", v.Every, stepwell.Clip(v.From, 40))
	}
	over := func(at time.Time) time.Time { return u.next(u.begin(at.UTC()), -1) } // the last one that is
	text := cmp.Or(strings.TrimSpace(v.Until), "now")
	if rest, relative := strings.CutPrefix(text, "now"); relative {
		back, ok := lengthOf(rest)
		if !ok {
			return first, last, untilWrong(v)
		}
		return first, over(now.Add(-back)), nil
	}
	if last, err = u.parse(text); err != nil {
		return first, last, untilWrong(v)
	}
	if last.Before(first) {
		return first, last, stepwell.Invalid("", "until %s is before from %s", v.Until, v.From)
	}
	if done := over(now); done.Before(last) {
		last = done
	}
	return first, last, nil
}

func untilWrong(v *Values) error {
	return stepwell.Invalid("such as now, now - 3d or "+units[v.Every].form, "until is no %s: %q", v.Every, stepwell.Clip(v.Until, 40))
}

// lengthOf reads what stands behind now: nothing, or a minus, a number and h, d or w.
func lengthOf(text string) (time.Duration, bool) {
	text = strings.TrimSpace(text)
	if text == "" {
		return 0, true
	}
	rest, minus := strings.CutPrefix(text, "-")
	rest = strings.TrimSpace(rest)
	if !minus || len(rest) < 2 {
		return 0, false
	}
	by := map[byte]time.Duration{'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}[rest[len(rest)-1]]
	n, err := strconv.Atoi(rest[:len(rest)-1])
	if by == 0 || err != nil || n < 0 || n > 100_000 {
		return 0, false
	}
	return time.Duration(n) * by, true
}

// times are the values of a calendar at a moment.
func (v *Values) times(now time.Time) ([]string, error) {
	first, last, err := v.span(now)
	if err != nil {
		return nil, err
	}
	u := units[v.Every]
	var list []string
	for n := 0; ; n++ {
		t := u.next(first, n)
		if t.After(last) {
			return list, nil
		}
		if n >= Most {
			return nil, stepwell.Errorf(stepwell.CodeLimit, "begin later, or take longer times", "settings.partition: there are more than %d partitions", Most)
		}
		list = append(list, u.format(t))
	}
}
