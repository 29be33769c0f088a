package app_test

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell/action/actiontest"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/spec"
)

var update = flag.Bool("update", false, "write docs/actions.md and docs/modules.md anew")

// docs/actions.md and docs/modules.md are what the actions and modules say of themselves.
func TestDocsCurrent(t *testing.T) {
	r, err := app.Actions(app.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for kind, drop := range map[string]func(s spec.Spec) bool{
		"action": func(s spec.Spec) bool { return s.Stream != nil || s.Internal },
		"module": func(s spec.Spec) bool { return s.Stream == nil },
	} {
		path := "../docs/" + kind + "s.md"
		var b strings.Builder
		if err := actiontest.Markdown(&b, kind, slices.DeleteFunc(r.Specs(), drop)...); err != nil {
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
			t.Errorf("%s is out of date; go test ./app -run Docs -update:\n%s", path, diff)
		}
	}
}
