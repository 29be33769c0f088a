// Package schematest holds what schemas and documents are judged by that is not ours: ajv with ajv-formats, and
// JSON-Schema-Test-Suite. For tests only.
//
// Both are fetched once, by npm and by the go command, into the user's cache.
package schematest

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stepwell/stepwell/tooltest"
)

//go:embed judge.cjs
var judge []byte

var packages = []string{"ajv@8.20.0", "ajv-formats@3.0.1"}

// suite is the module whose test data holds JSON-Schema-Test-Suite.
const suite = "github.com/kaptinlin/jsonschema@v0.9.3"

// Formats asks ajv whether each text is of its format: pairs of format and text. Nil: ajv does not have the format.
func Formats(t testing.TB, pairs [][2]string) []*bool {
	t.Helper()
	var out []*bool
	ask(t, map[string]any{"formats": pairs}, &out)
	return out
}

// Documents lets ajv validate STAC objects, each a path or the object itself, against the core and every extension
// that they declare, by the schemas in a folder with an index. It returns the problems of each.
func Documents(t testing.TB, schemas string, documents []any) [][]string {
	t.Helper()
	var out [][]string
	ask(t, map[string]any{"schemas": schemas, "documents": documents}, &out)
	return out
}

func ask(t testing.TB, question, answer any) {
	t.Helper()
	dir := tooltest.Packages(t, "not judged by ajv", packages...)
	raw, err := json.Marshal(question)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "judge.cjs")
	if err := os.WriteFile(program, judge, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", program)
	cmd.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(dir, "node_modules"))
	cmd.Stdin, cmd.Stderr = bytes.NewReader(raw), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("ajv: %v", err)
	}
	if err := json.Unmarshal(out, answer); err != nil {
		t.Fatalf("ajv: %v\n%.500s", err, out)
	}
}

// FormatTest is one test of the suite.
type FormatTest struct {
	Description string `json:"description"`
	Data        any    `json:"data"`
	Valid       bool   `json:"valid"`
}

// FormatSuite is optional/format of the suite for draft 7, by the name of the format.
func FormatSuite(t testing.TB) map[string][]FormatTest {
	t.Helper()
	cmd := exec.Command("go", "mod", "download", "-json", suite)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	out, err := cmd.Output()
	var module struct{ Dir, Error string }
	if bad := json.Unmarshal(out, &module); err != nil || bad != nil || module.Dir == "" {
		missing(t, "not compared with JSON-Schema-Test-Suite: go mod download: %v %s", err, module.Error)
	}
	files, err := filepath.Glob(filepath.Join(module.Dir, "testdata/JSON-Schema-Test-Suite/tests/draft7/optional/format/*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s holds no suite: %v", module.Dir, err)
	}
	all := map[string][]FormatTest{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var groups []struct {
			Schema struct{ Format string }
			Tests  []FormatTest
		}
		if err := json.Unmarshal(raw, &groups); err != nil {
			t.Fatal(file, err)
		}
		for _, g := range groups {
			all[g.Schema.Format] = append(all[g.Schema.Format], g.Tests...)
		}
	}
	return all
}

func missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}
