package view

import (
	"fmt"
	"strings"
)

// Printable makes text from elsewhere safe for a terminal: no control characters but newlines and
// tabs.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r >= ' ' && r != 0x7f && (r < 0x80 || r >= 0xa0) {
			return r
		}
		return '�'
	}, s)
}

// OneLine returns printable text without line breaks, at most max characters long.
func OneLine(s string, max int) string {
	s = strings.Join(strings.Fields(Printable(s)), " ")
	if r := []rune(s); len(r) > max {
		return string(r[:max-1]) + "…"
	}
	return s
}

// Size writes a number of bytes for people.
func Size(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", (n+1023)>>10)
}
