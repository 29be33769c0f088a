package app

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/starter"
)

// Limits of the folders of templates. Files beyond them are left out.
const (
	maxTemplates    = 500
	maxTemplateSize = 1 << 20 // bytes
)

// templates are the built-in templates and the files of folders, which are read each time: they may change while the server runs.
type templates struct {
	folders []string
	repos   *templateRepos // nil: none
	warn    func(msg string, args ...any)
}

// Templates implements api.Templates. A folder or file that cannot be read is logged, told and left out; of two templates with a name the
// first is given, those of folders before those of repositories, and a built-in one never.
func (t *templates) Templates(ctx context.Context) (_ []api.Template, problems []api.TemplateProblem, _ error) {
	var files []api.Template
	for _, folder := range t.folders {
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.warn("a folder of templates cannot be read", "folder", folder, "error", err)
			problems = append(problems, api.TemplateProblem{Source: folder, Message: "the folder cannot be read"})
			continue
		}
		for _, e := range entries {
			if err := ctx.Err(); err != nil {
				return nil, nil, context.Cause(ctx)
			}
			name, isTemplate := templateName(e)
			if !isTemplate || len(files) >= maxTemplates || slices.ContainsFunc(files, func(f api.Template) bool { return f.Name == name }) {
				continue
			}
			text, err := readTemplate(filepath.Join(folder, e.Name()))
			if err != nil {
				t.warn("a template cannot be read", "file", filepath.Join(folder, e.Name()), "error", err)
				problems = append(problems, api.TemplateProblem{Source: filepath.Join(folder, e.Name()), Message: "it cannot be read"})
				continue
			}
			files = append(files, api.Template{Name: name, Summary: starter.Summary(text), Origin: "folder", Text: text})
		}
	}
	fetched, more := t.repos.all(ctx)
	problems = append(problems, more...)
	for _, f := range fetched {
		if len(files) < maxTemplates && !slices.ContainsFunc(files, func(o api.Template) bool { return o.Name == f.Name }) {
			files = append(files, f)
		}
	}
	var all []api.Template
	for _, b := range starter.All() {
		if !slices.ContainsFunc(files, func(f api.Template) bool { return f.Name == b.Name }) {
			all = append(all, api.Template{Name: b.Name, Summary: b.Summary, Origin: "built-in", Text: b.Text})
		}
	}
	return append(all, files...), problems, nil
}

// templateName is the name of a pipeline file without its ending.
func templateName(e fs.DirEntry) (name string, ok bool) {
	ext := filepath.Ext(e.Name())
	if ext != ".yaml" && ext != ".yml" && ext != ".json" || strings.HasPrefix(e.Name(), ".") {
		return "", false
	}
	return strings.TrimSuffix(e.Name(), ext), true
}

// errNoTemplate is for what is no regular file of a usual size.
var errNoTemplate = errors.New("it is not a file of 1 MiB at most")

func readTemplate(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxTemplateSize {
		return "", errNoTemplate // opening a pipe would wait for its other end
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxTemplateSize+1))
	if err == nil && len(raw) > maxTemplateSize {
		err = errNoTemplate
	}
	return string(raw), err
}
