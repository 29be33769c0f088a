package lsp

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/lint"
)

// document is one that the editor has open.
type document struct {
	uri, file string
	language  string
	version   int
	text      *text
	now       *analysis // of the text, once it is known
	good      *analysis // the last that could be read
}

// analysis is what is known of one version of a text.
type analysis struct {
	text     *text
	pipeline *Pipeline // nil: it cannot be read
	problems definition.Problems
	outline  *definition.Outline
	types    *lint.Types
	byID     map[string][2]int // list and place of each step of the outline
}

// suffixes are the ends of the names of pipelines and of tests.
var (
	pipelineSuffixes = []string{".stepwell.yaml", ".stepwell.yml", ".stepwell.json"}
	testSuffixes     = []string{".test.yaml", ".test.yml", ".test.json"}
	stepsKey         = regexp.MustCompile(`(?m)^(?:steps\s*:|\s*"steps"\s*:)`)
)

func endsIn(name string, suffixes []string) bool {
	return slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(name, s) })
}

// isTest reports whether the document has tests of pipelines.
func (d *document) isTest() bool { return endsIn(d.file, testSuffixes) }

// isPipeline reports whether the document is one for us: editors send all files of a language.
func (d *document) isPipeline() bool {
	return !d.isTest() && (d.language == "stepwell" || endsIn(d.file, pipelineSuffixes) || stepsKey.MatchString(d.text.src))
}

// read is the text of a file as the editor has it, else as it is stored.
func (s *server) read(file string) ([]byte, error) {
	for _, d := range s.documents {
		if d.file == file {
			return []byte(d.text.src), nil
		}
	}
	return s.o.Read(file)
}

// analyse looks at the text of a document, once for each version.
func (s *server) analyse(d *document) *analysis {
	if d.now != nil {
		return d.now
	}
	a := s.analysisOf(d, d.text)
	d.now = a
	if a.pipeline != nil {
		d.good = a
	}
	return a
}

// analysisOf looks at a text as if it were that of the document.
func (s *server) analysisOf(d *document, t *text) *analysis {
	a := &analysis{text: t}
	if d.isTest() {
		a.problems = s.o.Tests(d.file, []byte(t.src))
		return a
	}
	if !d.isPipeline() {
		return a
	}
	read := func(file string) ([]byte, error) {
		if file == d.file {
			return []byte(t.src), nil
		}
		return s.read(file)
	}
	p, problems, err := s.o.Load(d.file, read)
	switch {
	case err != nil:
		a.problems = definition.Problems{{File: d.file, Line: 1, Column: 1, Message: err.Error()}}
	case p == nil:
		a.problems = withCode(problems)
	default:
		a.pipeline = p
		facts := s.o.Facts
		facts.Survey = p.Survey
		a.problems = lint.Find(definition.Expand(p.Definition, s.o.Catalog), s.o.Catalog, d.file, []byte(t.src), problems, facts)
	}
	return a
}

func withCode(problems definition.Problems) definition.Problems {
	for i := range problems {
		problems[i].Code = cmp.Or(problems[i].Code, lint.CodeInvalid)
	}
	return problems
}

// uses are the lists of the definition and the places that name steps and parameters.
func (s *server) uses(a *analysis) *definition.Outline {
	if a.outline == nil && a.pipeline != nil {
		a.outline = definition.OutlineOf(a.pipeline.Definition, s.o.Catalog, []byte(a.text.src))
	}
	return a.outline
}

func (s *server) typesOf(a *analysis) *lint.Types {
	if a.types == nil && a.pipeline != nil {
		a.types = lint.TypesOf(a.pipeline.Definition, s.o.Catalog)
	}
	return a.types
}

// quoted is the first text in quotes of a message: what the problem is about.
var quoted = regexp.MustCompile(`"([^"]+)"`)

// maxDiagnostics bounds what is shown of one document.
const maxDiagnostics = 1000

// diagnostics are the problems of a document, those of its sub-pipelines at the step that names them.
func (s *server) diagnostics(d *document, a *analysis) []diagnostic {
	out := []diagnostic{}
	seen := map[string]bool{}
	for i := range a.problems {
		p := &a.problems[i]
		if len(out) == maxDiagnostics {
			break
		}
		if p.File != "" && p.File != d.file {
			if p.Warning || seen[p.File] || a.pipeline == nil {
				continue
			}
			seen[p.File] = true
			at := a.pipeline.caller(p.File)
			out = append(out, diagnostic{Range: a.text.wordSpan(at), Severity: severityError, Code: p.Code, Source: "stepwell",
				Message: fmt.Sprintf("%s:%d:%d: %s", filepath.Base(p.File), p.Line, p.Column, p.Message)})
			continue
		}
		out = append(out, a.diagnostic(p))
	}
	return out
}

func (a *analysis) diagnostic(p *definition.Problem) diagnostic {
	d := diagnostic{Range: a.place(p), Severity: severityError, Code: p.Code, Source: "stepwell", Message: p.Message}
	if p.Warning {
		d.Severity = severityWarning
	}
	if p.Hint != "" {
		d.Message += "\n" + p.Hint
	}
	return d
}

// place is the text that a problem is about: that which its message quotes, when it stands there.
func (a *analysis) place(p *definition.Problem) span {
	from := a.text.at(definition.Pos{Line: p.Line, Column: p.Column})
	if m := quoted.FindStringSubmatch(p.Message); m != nil && p.Line > 0 && strings.HasPrefix(a.text.src[from:], m[1]) {
		return a.text.span(from, from+len(m[1]))
	}
	return a.text.span(from, a.text.word(from))
}

func (t *text) wordSpan(pos definition.Pos) span {
	from := t.at(pos)
	return t.span(from, t.word(from))
}

// caller is where a step names the pipeline of a file.
func (p *Pipeline) caller(file string) (at definition.Pos) {
	p.each(func(step *definition.Step) {
		if at.Line == 0 && step.Pipeline != "" && p.Files[step.Pipeline] == file {
			at = placeIn(step, "pipeline")
		}
	})
	return at
}

func placeIn(step *definition.Step, inside string) definition.Pos {
	if pos, ok := step.At[inside]; ok {
		return pos
	}
	return step.Pos
}

// each visits all steps of the pipeline's own file.
func (p *Pipeline) each(visit func(*definition.Step)) {
	var walk func(list []definition.Step)
	walk = func(list []definition.Step) {
		for i := range list {
			visit(&list[i])
			walk(list[i].Steps)
		}
	}
	for _, list := range [][]definition.Step{p.Definition.Steps, p.Definition.OnFailure, p.Definition.Finally} {
		walk(list)
	}
}
