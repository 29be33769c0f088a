package deploy

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/tooltest"
)

// TestSchemaStore: what is ready for SchemaStore is the schema that `stepwell schema` writes. ajv compiles it in its strict mode and
// judges the examples, and yaml-language-server, which editors run, finds what is wrong, explains and completes.
func TestSchemaStore(t *testing.T) {
	var entry struct{ URL string }
	readJSON(t, "schemastore/catalog-entry.json", &entry)
	schema := definition.Schema()
	schema["$id"] = entry.URL
	var want bytes.Buffer
	enc := json.NewEncoder(&want)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(schema); err != nil {
		t.Fatal(err)
	}
	const file = "schemastore/stepwell-pipeline.json"
	if *update {
		if err := os.WriteFile(file, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s is not the schema (%v): go test ./deploy -run TestSchemaStore -update", file, err)
	}

	packages := tooltest.Packages(t, "the schema is not judged by ajv and yaml-language-server", "ajv@8.20.0", "yaml@2.8.1", "yaml-language-server@1.25.0")
	folder, err := filepath.Abs("schemastore")
	if err != nil {
		t.Fatal(err)
	}
	judge := exec.Command(tooltest.Program(t, "the schema is not judged", "node"), "testdata/schemastore.cjs", packages, folder)
	judge.Stderr = os.Stderr
	out, err := judge.Output()
	if err != nil {
		t.Fatalf("the judge: %v", err)
	}
	var found struct {
		Valid       map[string]bool
		Diagnostics map[string][]string
		Hover       string
		Completion  []string
	}
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if len(found.Valid) < 4 {
		t.Errorf("only these examples were judged: %v", found.Valid)
	}
	for example, valid := range found.Valid {
		good := strings.HasPrefix(example, "test/")
		if valid != good {
			t.Errorf("%s: ajv says %v", example, valid)
		}
		if (len(found.Diagnostics[example]) == 0) != good {
			t.Errorf("%s: an editor says %q", example, found.Diagnostics[example])
		}
	}
	if !strings.Contains(found.Hover, "the name of an action") {
		t.Errorf("hover over action is %q", found.Hover)
	}
	if !slices.Contains(found.Completion, "condition") {
		t.Errorf("after con an editor offers %q", found.Completion)
	}
}

func readJSON(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
