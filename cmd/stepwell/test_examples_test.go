package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/tooltest"
)

// Every pipeline of the examples has tests, which pass and see at least 80 % of its decisions. They say the same each time.
func TestExamplePipelines(t *testing.T) {
	t.Chdir(tooltest.Root(t))
	reports := map[string]bool{}
	for range 3 {
		var out, errs bytes.Buffer
		if code := run([]string{"test", "examples", "--min-coverage", "80", "-o", "json"}, nil, &out, &errs); code != exitOK {
			t.Fatalf("exit code %d: %s%s", code, errs.String(), out.String())
		}
		reports[out.String()] = true
	}
	if len(reports) != 1 {
		t.Errorf("three runs gave %d reports", len(reports))
	}
	must(t, filepath.WalkDir("examples", func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" || isTest(path) || strings.Contains(path, "chart") {
			return err
		}
		if _, err := os.Stat(strings.TrimSuffix(path, ".yaml") + ".test.yaml"); err != nil {
			t.Errorf("%s has no tests: %v", path, err)
		}
		return nil
	}))
}

// Streams continue from their checkpoints, and actions of Kubernetes and Helm find what they began: however examples with them are
// crashed, all items go through every step, and nothing is done twice.
func TestExamplesInTheLab(t *testing.T) {
	t.Chdir(tooltest.Root(t))
	var out, errs bytes.Buffer
	code := run([]string{"lab", "examples/stac", "examples/helm", "examples/kubernetes", "--budget", "700ms"}, nil, &out, &errs)
	if code != exitOK || strings.Count(out.String(), "✔ every run ends as the undisturbed one") < 10 {
		t.Errorf("exit code %d: %s%s", code, errs.String(), out.String())
	}
	// The others have commands, of which the lab says that they ran twice: that is so. It says nothing else of any.
	out.Reset()
	code = run([]string{"lab", "examples/quickstart.test.yaml", "examples/lesson.test.yaml", "examples/media-ingest.test.yaml", "--budget", "200ms"}, nil, &out, &errs)
	if strings.Contains(out.String(), "✘") || strings.Count(out.String(), "undisturbed") < 6 || code != exitOK && code != exitFailed {
		t.Errorf("exit code %d: %s%s", code, errs.String(), out.String())
	}
}
