package definition_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
)

func indented(t *testing.T, raw []byte) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		t.Fatal(err)
	}
	return b.String() + "\n"
}

// content compares definitions without their positions.
var content = cmp.Options{
	cmpopts.IgnoreTypes(definition.Pos{}),
	cmpopts.IgnoreFields(definition.Definition{}, "At"), cmpopts.IgnoreFields(definition.Step{}, "At"),
	cmpopts.IgnoreUnexported(definition.Definition{}, definition.Step{}),
}

// thereAndBack encodes a definition and decodes that: it is the same.
func thereAndBack(t *testing.T, name string, d *definition.Definition) (raw []byte, back *definition.Definition) {
	t.Helper()
	raw, err := definition.Encode(d)
	if err != nil {
		t.Fatal(err)
	}
	if back, err = definition.Decode(raw); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, back, content); diff != "" {
		t.Errorf("%s (-before +after):\n%s", name, diff)
	}
	return raw, back
}

// A snapshot gives the very definition back, and encodes to the very bytes again.
func TestSnapshotRoundTrip(t *testing.T) {
	for _, file := range documents(t, "good") {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d, problems := definition.Parse(src, definition.ParseOptions{Env: variables})
		if err := problems.Err(); err != nil {
			t.Fatal(err)
		}
		d.Pipelines = others(t)
		raw, back := thereAndBack(t, file, d)
		again, err := definition.Encode(back)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(raw, again) {
			t.Errorf("%s: encoded differently the second time:\n%s\n%s", file, raw, again)
		}
	}
}

// The lists of large definitions come back as they were, those that are not there included.
func TestLargeSnapshots(t *testing.T) {
	many := &definition.Definition{Name: "many", Parameters: []definition.Parameter{{Name: "p", Default: []any{map[string]any{"a": `"[{\`}}}}}
	for i := range 1200 {
		many.Steps = append(many.Steps, definition.Step{ID: fmt.Sprint("s", i), Action: "util.noop", Params: map[string]any{"list": []any{map[string]any{}}}})
	}
	for _, d := range []*definition.Definition{
		many,
		{Name: "elsewhere", Finally: many.Steps},
		{Name: "sub", Pipelines: map[string]*definition.Definition{"many": many}, Steps: many.Steps[:1]},
	} {
		thereAndBack(t, d.Name, d)
	}
}

func TestSnapshotNumbers(t *testing.T) {
	d := &definition.Definition{Name: "n", Steps: []definition.Step{{ID: "a", Action: "x", Params: map[string]any{
		"int": int64(9007199254740993), "whole": 2.0, "huge": 1e300, "half": 0.5, "list": []any{int64(1), -3.0, map[string]any{"deep": 4.0}}}}}}
	raw, err := definition.Encode(d)
	if err != nil {
		t.Fatal(err)
	}
	back, err := definition.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, back, content); diff != "" {
		t.Errorf("-before +after:\n%s\n%s", diff, raw)
	}
	if d.Steps[0].Params["whole"] != 2.0 {
		t.Error("Encode changed its argument")
	}
}

func TestDecodeRefusesWhatEncodeDidNotWrite(t *testing.T) {
	for _, raw := range []string{"", "{", "[]", `"x"`, `{"name": 3}`, `{"name": "x"} {}`, `{"name": "x", "steps": [{"params": []}]}`} {
		if _, err := definition.Decode([]byte(raw)); stepwell.CodeOf(err) != stepwell.CodeInvalid {
			t.Errorf("Decode(%q): %v", raw, err)
		}
	}
}
