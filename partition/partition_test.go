package partition_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/partition"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	when, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

// TestCalendar lists the values of calendars at moments: a time is a partition once it is over.
func TestCalendar(t *testing.T) {
	for _, c := range []struct {
		every, from, until, now string
		want                    string // all, or first…last (n)
	}{
		{"month", "2026-08", "", "2026-11-28T12:00:00Z", "2026-08 2026-09 2026-10"},
		{"month", "2026-08", "now - 3d", "2026-11-03T23:59:59Z", "2026-08 2026-09"},
		{"month", "2026-08", "now-3d", "2026-11-04T00:00:00Z", "2026-08 2026-09 2026-10"},
		{"month", "2026-08", "2026-09", "2026-11-28T12:00:00Z", "2026-08 2026-09"},
		{"month", "2026-08", "2030-01", "2026-10-01T00:00:00Z", "2026-08 2026-09"},
		{"month", "2026-08", "", "2026-08-31T23:59:59Z", ""},
		{"month", "2026-08", "", "2026-09-01T01:00:00+02:00", ""}, // it is August in UTC
		{"day", "2028-02-27", "2028-03-01", "2029-01-01T00:00:00Z", "2028-02-27 2028-02-28 2028-02-29 2028-03-01"},
		{"hour", "2026-03-28T23", "2026-03-29T02", "2026-11-28T00:00:00Z", "2026-03-28T23 2026-03-29T00 2026-03-29T01 2026-03-29T02"}, // no clock changes in UTC
		{"week", "2026-W52", "2027-W01", "2028-01-01T00:00:00Z", "2026-W52 2026-W53 2027-W01"},
		{"week", "2024-W52", "now - 1w", "2025-01-13T00:00:00Z", "2024-W52 2025-W01"},
		{"year", "2023", "", "2026-11-28T00:00:00Z", "2023 2024 2025"},
	} {
		s := partition.Setting{By: []string{"x"}, Values: map[string]partition.Values{"x": {Every: c.every, From: c.from, Until: c.until}}}
		v := s.Values["x"]
		if err := v.Check(); err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		axes, err := s.Axes(nil, at(t, c.now))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(axes[0], " "); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
		newest := s.Newest(at(t, c.now))["x"]
		if n := len(axes[0]); n > 0 && newest != axes[0][n-1] || n == 0 && newest != "" {
			t.Errorf("%+v: the newest is %q", c, newest)
		}
	}
}

// TestCalendarIsChecked refuses what is no calendar, with a hint.
func TestCalendarIsChecked(t *testing.T) {
	for said, v := range map[string]partition.Values{
		"there are no values":                {},
		"from and until need every":          {List: []string{"a"}, From: "2026"},
		"exclude each other":                 {List: []string{"a"}, Every: "day", From: "2026-01-01"},
		"every needs from":                   {Every: "day"},
		`from is no month: "2026-13"`:        {Every: "month", From: "2026-13"},
		`from is no day: "2026-02-30"`:       {Every: "day", From: "2026-02-30"},
		`from is no week: "2025-W53"`:        {Every: "week", From: "2025-W53"},
		`until is no day: "now + 3d"`:        {Every: "day", From: "2026-01-01", Until: "now + 3d"},
		`until is no day: "now - 3y"`:        {Every: "day", From: "2026-01-01", Until: "now - 3y"},
		"until 2025 is before from 2026":     {Every: "year", From: "2026", Until: "2025"},
		`list has "a" twice`:                 {List: []string{"a", "b", "a"}},
		`from is no hour: "2026-01-01T5"`:    {Every: "hour", From: "2026-01-01T5"},
		`from is no year: "12026"`:           {Every: "year", From: "12026"},
		`until is no month: "now - 999999d"`: {Every: "month", From: "2026-01", Until: "now - 999999d"},
	} {
		err := v.Check()
		if err == nil || !strings.Contains(err.Error(), said) || stepwell.CodeOf(err) != stepwell.CodeInvalid {
			t.Errorf("%+v: %v, not %s", v, err, said)
		}
	}
}

// TestBounds refuses more partitions than are looked at.
func TestBounds(t *testing.T) {
	hours := partition.Values{Every: "hour", From: "1900-01-01T00"}
	s := partition.Setting{By: []string{"h"}, Values: map[string]partition.Values{"h": hours}}
	if _, err := s.Axes(nil, at(t, "2026-01-01T00:00:00Z")); stepwell.CodeOf(err) != stepwell.CodeLimit {
		t.Error(err)
	}
	many := make([]string, 1001)
	s = partition.Setting{By: []string{"a", "b"}}
	if _, err := s.Axes(func(string) []string { return many }, time.Now()); stepwell.CodeOf(err) != stepwell.CodeLimit {
		t.Error(err)
	}
}

// TestKeys gives no two partitions one key.
func TestKeys(t *testing.T) {
	s := partition.Setting{By: []string{"a", "b"}}
	if _, ok := s.Key(map[string]any{"a": "x", "b": 1}); ok {
		t.Error("a number names a partition")
	}
	seen := map[string][2]string{}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringN(1, 10, 40), rapid.SampledFrom([]string{"/", "a/b", "%2F", ".", "..", "é", " "}))
		a, b := text.Draw(t, "a"), text.Draw(t, "b")
		key, ok := s.Key(map[string]any{"a": a, "b": b})
		if !ok || strings.Count(key, "/") != 1 {
			t.Fatalf("%q", key)
		}
		if was, known := seen[key]; known && was != [2]string{a, b} {
			t.Fatalf("%q is of %v and %v", key, was, [2]string{a, b})
		}
		seen[key] = [2]string{a, b}
	})
	if !slices.Equal((&partition.Setting{By: []string{"a"}, Values: map[string]partition.Values{"c": {}, "a": {}, "b": {}}}).Unknown(), []string{"b", "c"}) {
		t.Error("unknown names")
	}
}

// A key leads back to its values, also where it escapes more than it must; one that no axes have leads to nothing.
func TestValuesOf(t *testing.T) {
	axes := [][]string{{"a/b", "50%", "s2"}, {"2026-01", "x y+z"}}
	for _, values := range [][]string{{"a/b", "x y+z"}, {"50%", "2026-01"}, {"s2", "x y+z"}} {
		got, ok := partition.ValuesOf(partition.KeyOf(values), axes)
		if !ok || !slices.Equal(got, values) {
			t.Errorf("%v: %v, %v", values, got, ok)
		}
	}
	if got, ok := partition.ValuesOf("s2/x%20y%2Bz", axes); !ok || got[1] != "x y+z" {
		t.Errorf("escaped as JavaScript does: %v, %v", got, ok)
	}
	for _, key := range []string{"", "s2", "s2/2026-01/x", "s2/2026-02", "a/b/2026-01", "%zz/2026-01"} {
		if got, ok := partition.ValuesOf(key, axes); ok {
			t.Errorf("%q names %v", key, got)
		}
	}
}
