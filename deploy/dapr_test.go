package deploy

import (
	"os"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v4"
)

// TestDapr: the files for Dapr are resources of the kinds that a sidecar loads, named as the settings name them.
func TestDapr(t *testing.T) {
	files, err := filepath.Glob("dapr/components/*.yaml")
	if err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	want := map[string]string{"pubsub": "Component", "statestore": "Component", "stepwell": "Resiliency"}
	for _, name := range append(files, "dapr/config.yaml") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var r struct {
			APIVersion string `yaml:"apiVersion"`
			Kind       string
			Metadata   struct{ Name string }
		}
		if err := yaml.Unmarshal(text, &r); err != nil {
			t.Fatal(name, err)
		}
		if filepath.Base(name) == "config.yaml" {
			want[r.Metadata.Name] = "Configuration"
		}
		if r.APIVersion != "dapr.io/v1alpha1" || r.Kind != want[r.Metadata.Name] {
			t.Errorf("%s: %s %s %q", name, r.APIVersion, r.Kind, r.Metadata.Name)
		}
	}
}
