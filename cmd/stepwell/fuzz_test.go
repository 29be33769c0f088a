package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stepwell/stepwell"
)

// FuzzSettings: any settings file gives known keys only, or an error with its name.
func FuzzSettings(f *testing.F) {
	for _, seed := range []string{"", "db: a.db\nworkers: 3\n", "db: {a: b}", "worker: 3", "- a", "http: {allow_private: true}\nservices: {apps: {a: b}, actions: {x: {app: a, path: /}}}", "http: 3", "db: [", "db: a\ndb: b", "&a {db: *a}", "a: &x [*x]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > maxSettings {
			return
		}
		values, _, err := parseSettings("stepwell.yaml", raw)
		if err != nil {
			if stepwell.CodeOf(err) != stepwell.CodeInvalid || !strings.HasPrefix(err.Error(), "stepwell.yaml") {
				t.Fatalf("error without its place: %v", err)
			}
			return
		}
		for key := range values {
			if !slices.Contains(settingNames, key) {
				t.Fatalf("unknown key %q", key)
			}
		}
	})
}

var colours = regexp.MustCompile("\x1b[^m]*m")

// FuzzCut: a line is never wider than the screen, nor does it end in a colour.
func FuzzCut(f *testing.F) {
	f.Add("plain", 3)
	f.Add("\x1b[31mred\x1b[0m and not", 5)
	f.Add("\x1b[31mred", 0)
	f.Add("torn \x1b[", 10)
	f.Add("\xff\xfe⠋ä", 2)
	f.Fuzz(func(t *testing.T, s string, width int) {
		if width < 0 || width > 1000 {
			return
		}
		got := cut(s, width)
		if n := utf8.RuneCountInString(colours.ReplaceAllString(got, "")); n > width {
			t.Fatalf("%q is %d wide, not %d", got, n, width)
		}
		if strings.Contains(got, "\x1b") && !strings.HasSuffix(got, "\x1b[0m") {
			t.Fatalf("%q ends in a colour", got)
		}
	})
}

// FuzzPrintable: no control character reaches the terminal.
func FuzzPrintable(f *testing.F) {
	f.Add("a\x1b[2Jb\r\n\tc\u009bd\x7f", 4)
	f.Fuzz(func(t *testing.T, s string, width int) {
		if width < 2 || width > 1000 {
			return
		}
		got := oneLine(s, width)
		if utf8.RuneCountInString(got) > width || strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }) {
			t.Fatalf("%q", got)
		}
	})
}
