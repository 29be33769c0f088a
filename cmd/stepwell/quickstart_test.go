package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	clockTime = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\.\d{3}`)
	duration  = regexp.MustCompile(`\b\d+(\.\d+)?s\b`)
	anyID     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)
)

// masked replaces what differs from run to run, and sorts the lines with a time: branches that run
// side by side come in any order.
func masked(out string) string {
	out = anyID.ReplaceAllString(duration.ReplaceAllString(clockTime.ReplaceAllString(out, "TIME"), "DURATION"), "ID")
	timed, rest, _ := strings.Cut(out, "\n\n")
	lines := strings.Split(timed, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n\n" + rest
}

// TestQuickstart runs the first example as a reader would, and holds its output against a golden file.
func TestQuickstart(t *testing.T) {
	file, golden := exampleFile(t, "quickstart.yaml"), "testdata/quickstart.golden"
	want, err := os.ReadFile(golden)
	if err != nil && !*update {
		t.Fatal(err)
	}
	code, out, errs := command(t, "run", file, "--db", t.TempDir()+"/stepwell.db")
	if code != exitOK || errs != "" {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	got := masked(out)
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", golden, diff)
	}
}

// TestQuickstartCelebrates takes the other way at the condition.
func TestQuickstartCelebrates(t *testing.T) {
	code, out, errs := command(t, "run", exampleFile(t, "quickstart.yaml"), "--db", t.TempDir()+"/stepwell.db", "-p", "who=Ada", "-p", "celebrate=true", "-p", `cities=["Oslo"]`)
	if code != exitOK || !strings.Contains(out, "fireworks: Hello, Ada! ***") || !strings.Contains(out, "sights    Oslo has 4 letters") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}
