package pipeline

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestUnified: a difference leads from the one text to the other.
func TestUnified(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.SampledFrom([]string{"a\n", "b\n", "c\n", "d\n"}), 1, 30)
		x, y := strings.Join(lines.Draw(t, "x"), ""), strings.Join(lines.Draw(t, "y"), "")
		text, err := unified("x", "y", x, y)
		if err != nil {
			t.Fatal(err)
		}
		if got := patched(x, text); got != y {
			t.Fatalf("%q and %q became %q by\n%s", x, y, got, text)
		}
	})
	text, err := unified("x", "y", "a\nb", "a\nc\n")
	if want := "--- x\n+++ y\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n"; err != nil || text != want {
		t.Errorf("%s%v, want %s", text, err, want)
	}
}

// patched applies a difference to the text that it begins with.
func patched(from, difference string) string {
	lines, at, out := strings.SplitAfter(from, "\n"), 0, ""
	for line := range strings.Lines(difference) {
		switch {
		case strings.HasPrefix(line, "--- ") || strings.HasPrefix(line, "+++ "):
		case line[0] == '@':
			first := 0
			_, _ = fmt.Sscanf(line, "@@ -%d", &first)
			for ; at < first-1; at++ {
				out += lines[at]
			}
		case line[0] == '+':
			out += line[1:]
		case lines[at] != line[1:]:
			return "another text: " + lines[at]
		default:
			if at++; line[0] == ' ' {
				out += line[1:]
			}
		}
	}
	return out + strings.Join(lines[at:], "")
}

// Texts that have nothing in common are compared in little time.
func TestUnifiedLarge(t *testing.T) {
	var x, y strings.Builder
	for i := range 20_000 {
		x.WriteString(strings.Repeat("x", i%50) + "\n")
		y.WriteString(strings.Repeat("y", i%70) + "\n")
	}
	text, err := unified("x", "y", x.String(), y.String())
	if err != nil || strings.Count(text, "\n") < 20_000 {
		t.Errorf("%d lines, %v", strings.Count(text, "\n"), err)
	}
}
