package app_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/app"
)

var update = flag.Bool("update", false, "write docs/actions.md anew")

// docs/actions.md is what the actions say of themselves.
func TestDocsCurrent(t *testing.T) {
	const path = "../docs/actions.md"
	r, err := app.Actions(app.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := action.Markdown(&b, r.Specs()...); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	current, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(current), b.String()); diff != "" {
		t.Errorf("docs/actions.md is out of date; go test ./app -run Docs -update:\n%s", diff)
	}
}
