package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

//go:embed npm/stepwell.js
var launcher []byte

//go:embed npm/README.md
var npmReadme []byte

// npmPackage is a package.json.
type npmPackage struct {
	Name         string            `json:"name"`
	Version      string            `json:"version"`
	Description  string            `json:"description"`
	Repository   string            `json:"repository"`
	License      string            `json:"license"`
	Engines      map[string]string `json:"engines,omitempty"`
	OS           []string          `json:"os,omitempty"`
	CPU          []string          `json:"cpu,omitempty"`
	Bin          map[string]string `json:"bin,omitempty"`
	Optional     map[string]string `json:"optionalDependencies,omitempty"`
	PreferUnplug bool              `json:"preferUnplugged,omitempty"` // Yarn: a program in an archive does not run
}

// npm's names of systems and processors.
var (
	npmSystems = map[string]string{"linux": "linux", "darwin": "darwin", "windows": "win32"}
	npmCPUs    = map[string]string{"amd64": "x64", "arm64": "arm64"}
)

// writePackages writes stepwell-npm-*.tgz: a package with the program for each system, and stepwell, which has them as
// optional dependencies. npm installs the one whose os and cpu fit, so that no script downloads anything.
func (r *release) writePackages() error {
	licence, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	main := r.npmPackage("stepwell", "Run pipelines: graphs of steps that survive crashes and restarts")
	main.Engines = map[string]string{"node": ">=18"}
	main.Bin = map[string]string{"stepwell": "bin/stepwell.js"}
	main.Optional = map[string]string{}
	for system, npmSystem := range npmSystems {
		for processor, npmCPU := range npmCPUs {
			platform := npmSystem + "-" + npmCPU
			program, err := r.program(system, processor)
			if err != nil {
				return err
			}
			text, err := os.ReadFile(program)
			if err != nil {
				return err
			}
			p := r.npmPackage("@stepwell/"+platform, "Stepwell's program for "+platform+"; install the package stepwell")
			p.OS, p.CPU, p.PreferUnplug = []string{npmSystem}, []string{npmCPU}, true
			main.Optional[p.Name] = p.Version
			files := []entry{{"package/bin/" + filepath.Base(program), 0o755, text}, {"package/LICENSE", 0o644, licence}}
			if err := r.writePackage(platform, p, files); err != nil {
				return err
			}
		}
	}
	files := []entry{{"package/bin/stepwell.js", 0o755, launcher}, {"package/LICENSE", 0o644, licence}, {"package/README.md", 0o644, npmReadme}}
	return r.writePackage("stepwell", main, files)
}

func (r *release) npmPackage(name, description string) npmPackage {
	return npmPackage{Name: name, Version: r.Version, Description: description, Repository: "git+" + repository + ".git", License: "Apache-2.0"}
}

func (r *release) writePackage(file string, p npmPackage, files []entry) error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	files = append([]entry{{"package/package.json", 0o644, append(text, '\n')}}, files...)
	return r.writeTar("stepwell_"+r.Version+"_npm_"+file+".tgz", files)
}

// program is the path of the program that goreleaser has built for a system.
func (r *release) program(system, processor string) (string, error) {
	name := "stepwell"
	if system == "windows" {
		name += ".exe"
	}
	found, err := filepath.Glob(filepath.Join(r.dist, "*_"+system+"_"+processor+"*", name))
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("programs for %s/%s: %s; there must be one", system, processor, strings.Join(found, ", "))
	}
	return found[0], nil
}
