package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/starter"
)

// TestTemplates writes every template of `stepwell init`, validates it and runs it to its end, as its reader would.
func TestTemplates(t *testing.T) {
	flags := map[string][]string{"approval": {"-p", "wait_seconds=1"}} // nobody decides
	for _, template := range starter.All() {
		t.Run(template.Name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			file := template.Name + ".stepwell.yaml"
			if template.Summary == "" || !strings.Contains(template.Text, "stepwell run "+file) {
				t.Error("the comment at its beginning does not say what it is and how it is run")
			}
			for _, args := range [][]string{{"init", template.Name}, {"validate", file}, append([]string{"run", file}, flags[template.Name]...)} {
				if code, out, errs := command(t, args...); code != exitOK || errs != "" {
					t.Fatalf("%s: exit code %d\n%s%s", strings.Join(args, " "), code, out, errs)
				}
			}
			if text, err := os.ReadFile(file); err != nil || string(text) != template.Text {
				t.Errorf("%s is not the template: %v", file, err)
			}
		})
	}
}
