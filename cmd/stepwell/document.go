package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/settings"
	"github.com/stepwell/stepwell/spec"
)

// Limits of loading: no document is larger, no pipeline consists of more files.
const (
	maxDocument = 32<<20 + 1 // what Parse refuses by itself is one byte less
	maxFiles    = 100
)

// document is a pipeline file with everything it refers to.
type document struct {
	file     string
	def      *definition.Definition
	problems definition.Problems  // of all its files, warnings included
	files    map[string]string    // of its sub-pipelines, by the names that steps use
	others   []string             // the same files, in order
	survey   *definition.Surveyed // nil: none was made
}

// loader reads a pipeline file and the files of its sub-pipelines.
type loader struct {
	program   *program
	read      func(file string) ([]byte, error)
	actions   *action.Registry
	pipelines map[string]*definition.Definition // sub-pipelines by the name that steps use
	files     map[string]string                 // the files they came from
	subs      []*document
}

// loadWithActions loads a document with the actions that its steps may use.
func (p *program) loadWithActions(file string) (*document, *action.Registry, error) {
	actions, err := p.registry()
	if err != nil {
		return nil, nil, err
	}
	d, err := p.load(file, actions)
	return d, actions, err
}

// load reads, resolves and checks a pipeline. Sub-pipelines (`pipeline: other`) are the files beside
// the one that names them: other.yaml, other.yml or other.json, or the path given. The error is
// about files that cannot be read; what is wrong with their content is in the document's problems.
func (p *program) load(file string, actions *action.Registry) (*document, error) {
	d, err := p.resolved(file, actions, func(file string) ([]byte, error) { return readFile(file, maxDocument) })
	if err == nil && d.def != nil {
		d.def = definition.Expand(d.def, actions)
	}
	return d, err
}

// resolved is load without what definition.Expand adds, and with files read as the caller says.
func (p *program) resolved(file string, actions *action.Registry, read func(file string) ([]byte, error)) (*document, error) {
	l := &loader{program: p, read: read, actions: actions, pipelines: map[string]*definition.Definition{}, files: map[string]string{}}
	root, err := l.parse(file)
	if err != nil {
		return nil, err
	}
	if root.def == nil {
		return root, nil
	}
	if err := l.resolve(root); err != nil {
		return nil, err
	}
	l.check(root)
	root.files = l.files
	root.others = slices.Sorted(maps.Values(l.files))
	for _, d := range l.subs {
		l.check(d)
		root.add(d.problems)
		d.def.Pipelines, d.def.Text = nil, ""
	}
	return root, nil
}

// check looks at one file as a whole and puts all its problems in order.
func (l *loader) check(d *document) {
	if len(l.pipelines) > 0 {
		own := d.def.Pipelines // the entries of a matrix
		d.def.Pipelines = maps.Clone(l.pipelines)
		maps.Copy(d.def.Pipelines, own)
	}
	problems, survey := definition.Inspect(d.def, l.actions, d.file)
	d.survey = survey
	d.add(problems)
	slices.SortStableFunc(d.problems, func(a, b definition.Problem) int {
		if (a.Line == 0) != (b.Line == 0) {
			return cmp.Compare(b.Line, a.Line) // those without a place come last
		}
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// problemsIn returns what the API found wrong in the document of a file as `validate` shows it, and other errors as they are.
func problemsIn(file string, err error) error {
	details, _ := errors.AsType[client.Details](err)
	if !slices.ContainsFunc(details, func(d api.Detail) bool { return d.Line > 0 }) {
		return err
	}
	var problems definition.Problems
	for _, d := range details {
		d.File, d.Path = file, "" // the message says where
		problems = append(problems, definition.Problem(d))
	}
	return problems
}

// add takes problems over. That pipelines run each other is found in each of their files, and told
// once.
func (d *document) add(more definition.Problems) {
	for _, p := range more {
		same := func(q definition.Problem) bool {
			return p == q || p.Path == "" && p.Line > 0 && q.Path == "" && q.Line > 0
		}
		if !slices.ContainsFunc(d.problems, same) {
			d.problems = append(d.problems, p)
		}
	}
}

func (l *loader) parse(file string) (*document, error) {
	src, err := l.read(file)
	if err != nil {
		return nil, err
	}
	def, problems := definition.Parse(src, definition.ParseOptions{File: file, Lenient: l.program.settings.lenient, Env: l.program.env,
		Dotenv: func(path string) (map[string]string, error) {
			return settings.Dotenv(path, filepath.Dir(file), readFile)
		}})
	if def != nil {
		def.Keep(src)
	}
	return &document{file: file, def: def, problems: problems}, nil
}

// resolve loads the sub-pipelines of a document, and theirs.
func (l *loader) resolve(d *document) error {
	for todo := []*document{d}; len(todo) > 0; {
		at := todo[0]
		todo = todo[1:]
		for _, name := range at.def.Calls() {
			if at.def.Pipelines[name] != nil {
				continue // an entry of its matrix
			}
			file := findPipeline(filepath.Dir(at.file), name)
			if file == "" {
				continue // Check says that it is unknown, and where
			}
			if first, known := l.files[name]; known {
				if first != file {
					return stepwell.Invalid("call one of them by its path", "the pipeline %q is %s for one file and %s for another", name, first, file)
				}
				continue
			}
			if len(l.files) == maxFiles {
				return &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("%s consists of more than %d files", d.file, maxFiles)}
			}
			sub, err := l.parse(file)
			if err != nil {
				return err
			}
			l.files[name] = file
			if sub.def == nil { // its problems are told; that it is missing would be one too many
				d.add(sub.problems)
				l.pipelines[name] = &definition.Definition{Name: name}
				continue
			}
			l.pipelines[name] = sub.def
			l.subs = append(l.subs, sub)
			todo = append(todo, sub)
		}
	}
	return nil
}

func findPipeline(dir, name string) string {
	candidates := []string{name + ".yaml", name + ".yml", name + ".json"}
	if slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) {
		candidates = []string{name}
	}
	for _, c := range candidates {
		if !filepath.IsAbs(c) {
			c = filepath.Join(dir, c)
		}
		if app.IsFile(c) {
			return c
		}
	}
	return ""
}

// readFile reads a file of limited size; its errors are for people.
func readFile(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fileError(name, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, stepwell.Invalid("name a file in it", "%s is a directory", name)
	}
	raw, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil, fileError(name, err)
	}
	return raw, nil
}

func fileError(name string, err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err // the name is in the message already
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: name + " cannot be read", Err: err}
	}
	e := &stepwell.Error{Code: stepwell.CodeNotFound, Message: "there is no file " + name}
	entries, _ := os.ReadDir(filepath.Dir(name)) // for the hint alone
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if near := spec.Closest(filepath.Base(name), names); near != "" {
		e.Hint = "did you mean " + filepath.Join(filepath.Dir(name), near) + "?"
	}
	return e
}
