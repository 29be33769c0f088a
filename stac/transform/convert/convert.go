// Package convert turns the values of tables into those of STAC items: date-times of any form, numbers with a
// decimal comma, and geometries as WKT, WKB, GeoJSON, bounding boxes or longitude and latitude
// (specification: stac-manager, Transform; docs/stac §4).
//
// Only ReadFile does I/O. Values given are not changed unless a comment says so; errors are CodeInvalid and show the
// beginning of the wrong value. Recursion and counts are bounded by the input. Stable.
package convert

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
)

func bad(text, what, hint string) error {
	return stepwell.Invalid(hint, "%q %s", stepwell.Clip(text, 60), what)
}

// earliest and latest limit times to the range of RFC 3339: the years 0 to 9999.
const earliest, latest = -62167219200, 253402300799

// Time reads a date-time. Without a format it takes RFC 3339; the same with a blank for the T, without
// seconds, without a zone, or a date alone; the compact 20260131T120000Z and 20260131; and a number of
// seconds since 1970 (of milliseconds from 1e11 on).
func (c Clock) Time(v *item.Value) (time.Time, error) {
	if n, ok := v.Float(); ok && c.Format == "" {
		return epoch(n, string(v.Bytes()))
	}
	text, ok := v.Str()
	if !ok {
		if v.Kind() != item.Number { // a number with a format: 20260131 and %Y%m%d
			return time.Time{}, bad(string(v.Bytes()), "is not a time", "")
		}
		text = string(v.Bytes())
	}
	text = strings.TrimSpace(text)
	t, err := time.Time{}, error(nil)
	if c.Format != "" {
		t, err = c.parse(text)
	} else {
		t, err = c.guess(text)
	}
	if err == nil && (t.Unix() < earliest || t.Unix() > latest) {
		return t, bad(text, "is beyond the year 9999", "")
	}
	return t, err
}

func epoch(n float64, text string) (time.Time, error) {
	if math.Abs(n) >= 1e11 {
		n /= 1000
	}
	if math.IsNaN(n) || n < earliest || n > latest {
		return time.Time{}, bad(text, "is not a time", "")
	}
	whole, part := math.Modf(n)
	return time.Unix(int64(whole), int64(math.Round(part*1e6))*1000).UTC(), nil
}

var usual = []string{time.RFC3339Nano, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07", "2006-01-02T15:04:05", "2006-01-02T15:04Z07:00", "2006-01-02T15:04", "2006-01-02",
	"20060102T150405Z0700", "20060102T150405", "20060102"}

func (c Clock) guess(text string) (time.Time, error) {
	iso := text
	if len(iso) > 10 && (iso[10] == ' ' || iso[10] == 't') {
		iso = iso[:10] + "T" + strings.TrimLeft(iso[11:], " ")
	}
	iso = strings.TrimSuffix(iso, " UTC")
	if n := len(iso); n > 7 && iso[n-7] == ' ' { // 12:00:00 +02:00
		iso = iso[:n-7] + iso[n-6:]
	}
	for _, layout := range usual {
		if t, err := time.ParseInLocation(layout, iso, c.zone()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, bad(text, "is not a time", "give its format, such as %d.%m.%Y %H:%M")
}

// DateTime is Time, written as STAC wants it: RFC 3339 in UTC, with the digits of a second that are there. A
// text that is that already stays as it is.
func (c Clock) DateTime(v *item.Value) (*item.Value, error) {
	t, err := c.Time(v)
	if err != nil {
		return nil, err
	}
	if text, ok := v.Str(); ok && strings.HasSuffix(text, "Z") {
		if _, err := time.Parse(time.RFC3339Nano, text); err == nil {
			return v.Clone(), nil
		}
	}
	return item.OfText(t.UTC().Format(time.RFC3339Nano)), nil
}

// Number reads a number, also from a text: with the decimal separator given ("." or ","), and the other one,
// blanks and apostrophes between thousands. A number stays as it is written.
func Number(v *item.Value, decimal string) (*item.Value, error) {
	if v.Kind() == item.Number {
		return v.Clone(), nil
	}
	text, ok := v.Str()
	if !ok {
		return nil, bad(string(v.Bytes()), "is not a number", "")
	}
	plain := strings.TrimSpace(text)
	if decimal == "," {
		plain = strings.NewReplacer(".", "", ",", ".").Replace(plain)
	} else {
		plain = strings.ReplaceAll(plain, ",", "")
	}
	plain = strings.NewReplacer(" ", "", "'", "", "\u00a0", "", "\u202f", "").Replace(plain)
	f, err := strconv.ParseFloat(plain, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) || strings.ContainsAny(plain, "xX_") {
		return nil, bad(text, "is not a number", "")
	}
	for len(plain) > 1 && plain[0] == '0' && plain[1] >= '0' && plain[1] <= '9' {
		plain = plain[1:]
	}
	if number, err := item.Parse([]byte(plain)); err == nil && number.Kind() == item.Number {
		return number, nil // digits beyond a float64 stay
	}
	return item.Of(f)
}

// Integer is Number for whole numbers; 3.0 is 3.
func Integer(v *item.Value, decimal string) (*item.Value, error) {
	n, err := Number(v, decimal)
	if err != nil {
		return nil, err
	}
	text := string(n.Bytes())
	if strings.Trim(text, "-0123456789") == "" {
		return n, nil
	}
	f, _ := n.Float()
	if f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return nil, bad(text, "is not a whole number", "")
	}
	return item.Of(int64(f))
}

// Boolean reads true, false, yes, no, t, f, y, n, 1, 0 in any case.
func Boolean(v *item.Value) (*item.Value, error) {
	text, ok := v.Str()
	switch {
	case v.Kind() == item.Bool:
		return v.Clone(), nil
	case !ok:
		text = string(v.Bytes())
	}
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "true", "yes", "t", "y", "1":
		return item.Of(true)
	case "false", "no", "f", "n", "0":
		return item.Of(false)
	}
	return nil, bad(text, "is neither true nor false", "")
}

// Text makes a text of a text, a number or a boolean, as it is written.
func Text(v *item.Value) (*item.Value, error) {
	switch v.Kind() {
	case item.Text:
		return v.Clone(), nil
	case item.Number, item.Bool:
		return item.OfText(string(v.Bytes())), nil
	}
	return nil, bad(string(v.Bytes()), "is "+v.Kind().String()+", not a text", "")
}
