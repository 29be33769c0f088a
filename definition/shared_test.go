package definition_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/definition"
)

// shared finds a file of the specifications and sample data, which are no part of the project.
func shared(t *testing.T, path ...string) string {
	t.Helper()
	root := filepath.Join("..", "..", "shared")
	if data := os.Getenv("STEPWELL_SHARED_DATA"); data != "" {
		root = filepath.Dir(data)
	}
	file := filepath.Join(append([]string{root}, path...)...)
	if _, err := os.Stat(file); err != nil {
		t.Skipf("left out: %s is not there", file)
	}
	return file
}

// block is the first fenced block behind a heading.
func block(t *testing.T, file, heading string) string {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(src), heading)
	if ok {
		_, rest, ok = strings.Cut(rest, "```yaml\n")
	}
	text, _, closed := strings.Cut(rest, "```")
	if !ok || !closed {
		t.Fatalf("%s has no block behind %q", file, heading)
	}
	return text
}

// budpipeline's own example is accepted as it stands; the one reference to a step that is no ancestor is
// guarded and so only a warning.
func TestSpecificationExample(t *testing.T) {
	src := block(t, shared(t, "specs", "budpipeline.md"), "#### DAG Definition Schema")
	d, problems := definition.Parse([]byte(src), definition.ParseOptions{Env: variables})
	if problems != nil {
		t.Fatal(problems)
	}
	found := definition.Check(d, actions(), "")
	if found.Err() != nil || len(found) != 1 || found[0].Path != "steps[2].params.config" {
		t.Errorf("got %v", found)
	}
	if len(d.Steps) != 4 || d.Settings.RetryPolicy.MaxAttempts != 3 || d.Parameters[1].Type != "ref" || !d.Parameters[0].Required || d.Parameters[2].Required {
		t.Errorf("read wrongly: %+v", d)
	}
}

// stac-manager's samples are accepted as they are.
func TestStacManagerSamples(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(shared(t, "data", "stac-manager-samples"), "*", "workflows", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d, problems := definition.Parse(src, definition.ParseOptions{Env: variables})
		if err := problems.Err(); err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if err := definition.Check(d, actions(), "").Err(); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
