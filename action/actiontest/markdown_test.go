package actiontest_test

import (
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/actiontest"
	"github.com/stepwell/stepwell/spec"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMarkdown(t *testing.T) {
	low, high := 1.0, 10.0
	full := spec.Spec{
		Name: "demo.full", Aliases: []string{"full", "f"}, Summary: "Does | everything.", Doc: "More\n\ntext.",
		OpenParams: true, DependsOn: []string{"scan"}, Spawns: []string{"extract"}, KeyParam: "file",
		Timeout: 90 * time.Minute, Retry: &stepwell.Retry{MaxAttempts: 3, Backoff: time.Minute}, NotIdempotent: true,
		Params: []spec.Field{
			{Name: "file", Type: spec.String, Required: true, Doc: "A | file.", Pattern: "^[a|b]$"},
			{Name: "mode", Type: spec.String, Default: "<fast>", Enum: []string{"<fast>", "slow"}, Doc: "How."},
			{Name: "count", Type: spec.Integer, Min: &low, Max: &high, Doc: "How many."},
			{Name: "least", Type: spec.Array, Min: &low, Items: &spec.Field{Type: spec.String}, Doc: "Names."},
			{Name: "token", Type: spec.String, Max: &high, Secret: true, Default: "hunter2", Doc: "Key."},
			{Name: "rules", Type: spec.Array, Raw: true, Doc: "Rules.", Items: &spec.Field{Type: spec.Object, Fields: []spec.Field{{Name: "id", Type: spec.String, Doc: "Name."}}}},
			{Name: "at", Type: spec.Object, Doc: "Place.", Fields: []spec.Field{{Name: "x", Type: spec.Number, Doc: "East."}}},
		},
		Outputs:  []spec.Field{{Name: "result", Type: spec.Any, Doc: "What\ncame out."}},
		Examples: []spec.Example{{Title: "plain", YAML: "\nid: a\naction: demo.full\n"}},
	}
	var b strings.Builder
	if err := actiontest.Markdown(&b, "action", full, spec.Spec{Name: "demo.small", Summary: "Does nothing."}); err != nil {
		t.Fatal(err)
	}
	const path = "testdata/actions.md"
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(golden), b.String()); diff != "" {
		t.Errorf("-golden +got:\n%s", diff)
	}
}

// full is a disk that takes nothing.
type full struct{}

// Write implements io.Writer.
func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestMarkdownWriteError(t *testing.T) {
	if err := actiontest.Markdown(full{}, "action", spec.Spec{Name: "a"}); err == nil || err.Error() != "disk full" {
		t.Errorf("got %v", err)
	}
}
