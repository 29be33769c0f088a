package main

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
)

//go:embed stepwell.rb.tmpl
var formula string

// writeFormula writes Homebrew's formula, with the archives' addresses and sums.
func (r *release) writeFormula() error {
	archive := func(system, processor string) (map[string]string, error) {
		name := "stepwell_" + r.Version + "_" + system + "_" + processor + ".tar.gz"
		if r.sums[name] == "" {
			return nil, fmt.Errorf("checksums.txt has no %s", name)
		}
		return map[string]string{"URL": repository + "/releases/download/v" + r.Version + "/" + name, "Sum": r.sums[name]}, nil
	}
	t, err := template.New("formula").Funcs(template.FuncMap{
		"archive":    archive,
		"systems":    func() map[string]string { return map[string]string{"darwin": "macos", "linux": "linux"} },
		"processors": func() map[string]string { return map[string]string{"arm64": "arm", "amd64": "intel"} },
	}).Parse(formula)
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(r.out, "stepwell.rb"))
	if err != nil {
		return err
	}
	if err := t.Execute(f, map[string]string{"Version": r.Version, "Repository": repository}); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
