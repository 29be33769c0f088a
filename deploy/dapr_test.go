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

// TestDaprWorkflow: the manifest of the workflow program asks for a sidecar, with the Configuration that is beside it, and reaches a server by
// a key from a secret.
func TestDaprWorkflow(t *testing.T) {
	text, err := os.ReadFile("dapr/workflow.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Kind string
		Spec struct {
			Template struct {
				Metadata struct{ Annotations map[string]string }
				Spec     struct {
					Containers []struct {
						Command []string
						Env     []struct {
							Name, Value string
							ValueFrom   struct {
								SecretKeyRef struct{ Name string } `yaml:"secretKeyRef"`
							} `yaml:"valueFrom"`
						}
					}
				}
			}
		}
	}
	if err := yaml.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	pod := d.Spec.Template
	if d.Kind != "Deployment" || pod.Metadata.Annotations["dapr.io/enabled"] != "true" || pod.Metadata.Annotations["dapr.io/config"] != "stepwell" {
		t.Errorf("%s %v", d.Kind, pod.Metadata.Annotations)
	}
	if len(pod.Spec.Containers) != 1 || pod.Spec.Containers[0].Command[1] != "-run" {
		t.Fatalf("%v", pod.Spec.Containers)
	}
	env := pod.Spec.Containers[0].Env
	if len(env) != 2 || env[0].Name != "STEPWELL_SERVER" || env[1].Name != "STEPWELL_API_KEY" || env[1].ValueFrom.SecretKeyRef.Name == "" {
		t.Errorf("%+v", env)
	}
}
