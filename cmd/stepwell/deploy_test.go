package main

import (
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/stepwell/stepwell/settings"
)

// deployed is a command as a file in deploy has it: its arguments and its variables.
type deployed struct {
	place string
	args  []string
	env   map[string]string
}

// TestDeployment: what the compose file, the manifests, the units and the image say to the program are commands, flags,
// variables and settings that it has.
func TestDeployment(t *testing.T) {
	image := deployed{place: "deploy/image", args: []string{"serve"}, env: map[string]string{}}
	for _, m := range regexp.MustCompile(`"(STEPWELL_[A-Z_]+)=([^"]*)"`).FindAllStringSubmatch(readDeploy(t, "image/main.go"), -1) {
		image.env[m[1]] = m[2]
	}
	if len(image.env) != 2 {
		t.Errorf("the image has the variables %v", image.env)
	}
	all := append(slices.Concat(composed(t), manifested(t), units(t)), image)
	if len(all) < 10 {
		t.Errorf("only %d commands were found: %v", len(all), all)
	}
	for _, d := range all {
		p := &program{out: io.Discard, err: io.Discard, env: func(name string) (string, bool) { v, ok := d.env[name]; return v, ok }, environ: func() []string { return nil }}
		cmd, rest, err := p.root().Find(d.args)
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err == nil {
			err = cmd.ValidateArgs(cmd.Flags().Args())
		}
		if err != nil || cmd.Runnable() && !cmd.HasParent() {
			t.Errorf("%s: %v is no command: %v", d.place, d.args, err)
			continue
		}
		var environ []string
		for name, value := range d.env {
			environ = append(environ, name+"="+value)
			if strings.HasPrefix(name, "STEPWELL_") && !slices.Contains(settings.Variables(), name) {
				t.Errorf("%s: there is no variable %s", d.place, name)
			}
		}
		s := settings.Default()
		if err := s.Overlay(p.env, environ); err != nil {
			t.Errorf("%s: %v", d.place, err)
		} else if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", d.place, err)
		}
	}
}

func readYAML(t *testing.T, text string, to any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), to); err != nil {
		t.Fatal(err)
	}
}

func readDeploy(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// composed are the commands of the compose file, those of health checks too.
func composed(t *testing.T) (all []deployed) {
	var file struct {
		Services map[string]struct {
			Image       string
			Command     []string
			Environment map[string]string
			Healthcheck struct{ Test []string }
		}
	}
	readYAML(t, readDeploy(t, "compose/compose.yaml"), &file)
	for name, s := range file.Services {
		if !strings.Contains(s.Image, "stepwell") {
			continue
		}
		all = append(all, deployed{"compose.yaml, " + name, s.Command, s.Environment})
		if test := s.Healthcheck.Test; len(test) > 0 {
			if test[0] != "CMD" || test[1] != "/usr/local/bin/stepwell" {
				t.Errorf("compose.yaml, %s: the image from nothing cannot run %v", name, test)
				continue
			}
			all = append(all, deployed{"compose.yaml, health check of " + name, test[2:], s.Environment})
		}
	}
	return all
}

// manifested are the commands of the manifests. Their settings are checked too.
func manifested(t *testing.T) (all []deployed) {
	for _, text := range strings.Split(readDeploy(t, "kubernetes/stepwell.yaml"), "\n---\n") {
		var m struct {
			Kind string
			Data map[string]string
			Spec struct {
				Template struct {
					Spec struct {
						Containers []struct {
							Args []string
							Env  []struct{ Name, Value string }
						}
					}
				}
			}
		}
		readYAML(t, text, &m)
		for name, text := range m.Data {
			if _, _, err := settings.Parse(name, []byte(text)); m.Kind == "ConfigMap" && err != nil {
				t.Errorf("kubernetes/stepwell.yaml: %v", err)
			}
		}
		for _, c := range m.Spec.Template.Spec.Containers {
			env := map[string]string{}
			for _, v := range c.Env {
				env[v.Name] = strings.ReplaceAll(v.Value, "$(POD)", "stepwell-0")
			}
			all = append(all, deployed{"kubernetes/stepwell.yaml, " + m.Kind, c.Args, env})
		}
	}
	return all
}

var variable = regexp.MustCompile(`(STEPWELL_[A-Z_]+)=(\S+)`)

// units are the commands of systemd's units.
func units(t *testing.T) (all []deployed) {
	entries, err := os.ReadDir("../../deploy/systemd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		d := deployed{place: e.Name(), env: map[string]string{}}
		for line := range strings.Lines(readDeploy(t, "systemd/"+e.Name())) {
			if command, ok := strings.CutPrefix(line, "ExecStart=stepwell "); ok {
				d.args = strings.Fields(command)
			}
			if strings.HasPrefix(line, "Environment=") || strings.HasPrefix(line, "#") {
				for _, m := range variable.FindAllStringSubmatch(line, -1) {
					d.env[m[1]] = strings.ReplaceAll(m[2], ",", "")
				}
			}
		}
		all = append(all, d)
	}
	return all
}
