package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/starter"
)

// TestTemplates writes every template of `stepwell init`, validates it and runs it to its end, as its reader would.
func TestTemplates(t *testing.T) {
	flags := map[string][]string{
		"approval":         {"-p", "wait_seconds=1"}, // nobody decides
		"model-deployment": {"-p", "model_uri=llama", "-p", "cluster_id=eu-1", "-p", "ask=false"},
		"model-evaluation": {"-p", "model_id=m-1", "-p", "cluster_id=eu-1"},
		"model-cleanup":    {"-p", "ask=false"},
	}
	reached := map[string]string{ // the calls that tell that a template of a platform has done its work
		"model-deployment": "POST /api/v1/deployments",
		"model-evaluation": "POST /api/v1/benchmarks",
		"model-cleanup":    "DELETE /api/v1/deployments/e-2",
	}
	services, settings := startBudServices(t)
	for _, template := range starter.All() {
		t.Run(template.Name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.WriteFile("stepwell.yaml", []byte(settings), 0o600); err != nil {
				t.Fatal(err)
			}
			file := template.Name + ".stepwell.yaml"
			if template.Summary == "" || !strings.Contains(template.Text, "stepwell run "+file) {
				t.Error("the comment at its beginning does not say what it is and how it is run")
			}
			for _, args := range [][]string{{"init", template.Name}, {"validate", file}, append([]string{"run", file}, flags[template.Name]...)} {
				if code, out, errs := command(t, args...); code != exitOK || errs != "" {
					t.Fatalf("%s: exit code %d\n%s%s", strings.Join(args, " "), code, out, errs)
				}
			}
			if at := reached[template.Name]; at != "" {
				if calls, _ := services.of(at); len(calls) == 0 {
					t.Errorf("%s was not called", at)
				}
			}
			if text, err := os.ReadFile(file); err != nil || string(text) != template.Text {
				t.Errorf("%s is not the template: %v", file, err)
			}
		})
	}
}
