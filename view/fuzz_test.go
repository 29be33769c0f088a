package view

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

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
		got := OneLine(s, width)
		if utf8.RuneCountInString(got) > width || strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }) {
			t.Fatalf("%q", got)
		}
	})
}
