package view

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
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

// Width returns how many characters a line may have on w: as many as the terminal has columns, else otherwise.
func Width(w io.Writer, otherwise int) int {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width >= narrowest {
			return width
		}
		return usual
	}
	return otherwise
}

// A terminal that says less than narrowest, which may be nothing at all, has the usual width.
const (
	narrowest = 20
	usual     = 80
)
