package actiontest

import (
	"strings"
	"testing"
)

func TestFill(t *testing.T) {
	long := strings.Repeat("word ", 30)
	got := fill("Text that\nis broken.\n\n- " + long + "- end\n- second\n\n```yaml\na:   " + long + "\n```\n| " + long + "|\n")
	for i, line := range strings.Split(got, "\n") {
		if len(line) > pageWidth && !strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "a:") {
			t.Errorf("line %d has %d characters: %s", i+1, len(line), line)
		}
	}
	for _, want := range []string{"Text that is broken.\n\n- word", "\n  word", " - end\n- second\n\n```yaml\na:   word"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}
