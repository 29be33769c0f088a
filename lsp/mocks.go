package lsp

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/spec"
)

var pipelineKey = regexp.MustCompile(`(?m)^pipeline\s*:\s*["']?([^"'#\n]+?)["']?\s*(?:#.*)?$`)

// tested is the pipeline that a file of tests is about, in the file that a key at the place names or else the whole file; nil: it is not there, or
// cannot be read.
func (s *server) tested(d *document, named string) *analysis {
	var files []string
	if m := pipelineKey.FindStringSubmatch(d.text.src); named == "" && m != nil {
		named = m[1]
	}
	if named != "" {
		files = []string{filepath.Join(filepath.Dir(d.file), filepath.FromSlash(named))}
	} else {
		for _, suffix := range testSuffixes {
			if base, ok := strings.CutSuffix(d.file, suffix); ok {
				files = []string{base + ".yaml", base + ".yml", base + ".json"}
			}
		}
	}
	for _, file := range files {
		for _, open := range s.documents {
			if open.file == file {
				if s.analyse(open); open.good != nil {
					return open.good
				}
			}
		}
		src, err := s.read(file)
		if err != nil {
			continue // the tests' own problems say so
		}
		if s.beside.file != file || s.beside.src != string(src) {
			p, _, err := s.o.Load(file, s.read)
			if err != nil || p == nil {
				return nil
			}
			s.beside.file, s.beside.src, s.beside.known = file, string(src), &analysis{text: newText(string(src)), pipeline: p}
		}
		return s.beside.known
	}
	return nil
}

// completeTest completes in a file of tests.
func (s *server) completeTest(d *document, offset int) *completer {
	x := &completer{s: s, d: d, t: d.text, c: d.text.locate(offset), to: offset}
	named := ""
	for _, f := range x.c.frames {
		if e, ok := x.t.entries(f)["pipeline"]; ok && named == "" {
			named = plain(e.value)
		}
	}
	if x.c.key == "pipeline" {
		named = ""
	}
	x.good = s.tested(d, named)
	if start, code := x.tag(); start >= 0 {
		x.expression(code)
		return x
	}
	if x.c.scalar {
		return x
	}
	schema := x.testSchema(x.c.path)
	switch {
	case x.c.value:
		x.testValues(x.testSchema(append(slices.Clone(x.c.path), x.c.key)))
	case len(properties(schema)) > 0:
		x.keys(schema)
	default:
		x.testValues(schema)
	}
	return x
}

// testSchema is what may stand at a path of a file of tests: names of the pipeline as properties.
func (x *completer) testSchema(path []string) map[string]any {
	schema := x.s.o.TestSchema
	mock := ""
	for i, name := range path {
		switch {
		case name == "outputs" && mock != "":
			schema, mock = x.outputsOf(mock), ""
			continue
		case i > 0 && path[i-1] == "mock" && (i == 1 || path[i-2] == "[]"):
			mock = name
		case name != "[]":
			mock = ""
		}
		schema = x.member(schema, name)
	}
	what, ok := schema[spec.NamesKey].(string)
	if !ok {
		return schema
	}
	props := map[string]any{}
	if what == spec.NamesParams && x.good != nil {
		fields := make([]spec.Field, len(x.good.pipeline.Definition.Parameters))
		for i := range fields {
			fields[i] = x.good.pipeline.Definition.Parameters[i].Field()
		}
		return spec.JSONSchema(fields, false)
	}
	for _, n := range x.names(what) {
		props[n.name] = map[string]any{"description": n.doc, "anyOf": alternatives(of(schema))}
		if kind, ok := of(schema)["type"]; ok {
			props[n.name].(map[string]any)["type"] = kind
		}
	}
	out := maps.Clone(schema)
	out["properties"] = props
	return out
}

func of(schema map[string]any) map[string]any {
	more, _ := schema["additionalProperties"].(map[string]any)
	return more
}

type testName struct{ name, doc string }

// names are the steps of the pipeline, for mocks with their iterations and actions too.
func (x *completer) names(what string) (list []testName) {
	if x.good == nil {
		return nil
	}
	known := map[string]bool{}
	add := func(name, doc string) {
		if !known[name] && len(list) < maxItems {
			known[name], list = true, append(list, testName{name, doc})
		}
	}
	x.good.pipeline.each(func(step *definition.Step) {
		does := step.Action + step.Module + step.Pipeline
		if what != spec.NamesMocks || step.ForEach == nil {
			add(step.ID, strings.TrimSpace(does+" "+step.Name))
		}
		if what == spec.NamesMocks && step.ForEach != nil {
			add(step.ID+"[*]", "All iterations: "+does)
		}
		if what == spec.NamesMocks && step.Action != "" {
			add("action "+step.Action, "All steps with this action.")
		}
	})
	return list
}

// outputsOf are the outputs that a mock may give.
func (x *completer) outputsOf(mock string) map[string]any {
	name, isAction := strings.CutPrefix(mock, "action ")
	if !isAction {
		id, _, _ := strings.Cut(mock, "[")
		if x.good == nil {
			return nil
		}
		name = ""
		x.good.pipeline.each(func(step *definition.Step) {
			if step.ID == id && name == "" {
				name = step.Action
			}
		})
	}
	if about, ok := x.s.o.Catalog.Spec(name); ok && name != "" {
		return spec.JSONSchema(about.Outputs, about.OpenOutputs)
	}
	return nil
}

// testValues completes a value in a file of tests.
func (x *completer) testValues(about map[string]any) {
	switch about[spec.ValuesKey] {
	case spec.NamesSteps:
		for _, n := range x.names(spec.NamesSteps) {
			x.add(kindReference, n.name, n.doc, "", n.name)
		}
		return
	case spec.NamesFiles:
		entries, err := os.ReadDir(filepath.Dir(x.d.file))
		if err != nil {
			return // an unsaved document has no folder
		}
		for _, e := range entries[:min(len(entries), maxFiles)] {
			if name := e.Name(); !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) && !endsIn(name, testSuffixes) {
				x.add(kindFile, name, "", "", name)
			}
		}
		return
	}
	for _, word := range choicesOf(x, about, 0) {
		x.add(kindValue, word, "", "", word)
	}
}

var (
	mockKey  = regexp.MustCompile(`(?m)^mocks?\s*:[ \t]*(\{)?`)
	testsKey = regexp.MustCompile(`(?m)^tests\s*:`)
)

// maxMocks bounds the mocks that are offered at once.
const maxMocks = 8

// mocks offers mocks of steps that have none, in the file of tests itself, or in the one beside a pipeline.
func (s *server) mocks(d *document, p *placeParams) []codeAction {
	tests, a := d, (*analysis)(nil)
	within := func(*definition.Step) bool { return true }
	if d.isTest() {
		c := d.text.locate(d.text.offset(p.Range.Start))
		if !slices.Contains(c.path, "mock") && !slices.Contains([]string{"mock", "tests", "name"}, c.key) {
			return nil
		}
		a = s.tested(d, "")
	} else if a = d.good; a != nil && a == d.now {
		if tests = s.testsOf(d); tests == nil {
			return nil
		}
		lines := map[*definition.Step]int{} // where each ends
		var last *definition.Step
		a.pipeline.each(func(step *definition.Step) {
			if last != nil && step.Pos.Line > 0 {
				lines[last] = step.Pos.Line
			}
			last = step
		})
		within = func(step *definition.Step) bool {
			end, known := lines[step]
			return step.Pos.Line > 0 && step.Pos.Line-1 <= p.Range.Start.Line && (!known || p.Range.Start.Line < end-1)
		}
	}
	if a == nil || a.pipeline == nil {
		return nil
	}
	out := []codeAction{}
	a.pipeline.each(func(step *definition.Step) {
		about, ok := s.o.Catalog.Spec(step.Action)
		if step.Action == "" || !ok || about.Effect == spec.NoEffect || !within(step) || len(out) == maxMocks || mocked(tests.text.src, step) {
			return
		}
		key := step.ID
		if step.ForEach != nil {
			key += "[*]"
		}
		title := "Add a mock of " + key
		if tests != d {
			title += " to " + filepath.Base(tests.file)
		}
		out = append(out, codeAction{title, "quickfix", nil, false, workspaceEdit{map[string][]textEdit{tests.uri: {mockEdit(tests.text, key, outcomeOf(about))}}}})
	})
	return out
}

// testsOf is the file of tests beside a pipeline, nil when there is none.
func (s *server) testsOf(d *document) *document {
	base := strings.TrimSuffix(d.file, filepath.Ext(d.file))
	for _, suffix := range testSuffixes {
		file := base + suffix
		for _, open := range s.documents {
			if open.file == file {
				return open
			}
		}
		if src, err := s.read(file); err == nil { // else there is none to add to
			return &document{uri: s.uriOf(file), file: file, text: newText(string(src))}
		}
	}
	return nil
}

// mocked reports whether a file of tests has a mock that a step may take, or runs it for real.
func mocked(src string, step *definition.Step) bool {
	for _, key := range []string{regexp.QuoteMeta(step.ID) + `(?:\[[^\]]*\])*`, "action " + regexp.QuoteMeta(step.Action)} {
		if regexp.MustCompile(`(?m)(?:^\s+|[{,]\s*)["']?` + key + `["']?\s*:\s*[\[{&*]?`).MatchString(src) {
			return true
		}
	}
	return regexp.MustCompile(`(?m)\breal\s*:\s*\[[^\]]*\b` + regexp.QuoteMeta(step.ID) + `\b`).MatchString(src)
}

// maxMocked bounds the outputs of a mock that is written.
const maxMocked = 3

// outcomeOf is an outcome with the outputs that an action always has, of their types.
func outcomeOf(about *spec.Spec) string {
	var parts []string
	for i := range about.Outputs {
		f := &about.Outputs[i]
		value := map[spec.Type]string{spec.String: `""`, spec.Integer: "0", spec.Number: "0", spec.Boolean: "false", spec.Array: "[]", spec.Object: "{}", spec.Any: "{}"}[f.Type]
		switch {
		case f.Type == spec.String && len(f.Enum) > 0:
			value = f.Enum[0]
		case f.Name == "status" && f.Type == spec.Integer:
			value = "200"
		case f.Min != nil && (f.Type == spec.Integer || f.Type == spec.Number):
			value = strconv.FormatFloat(*f.Min, 'f', -1, 64)
		}
		if value != "" && len(parts) < maxMocked {
			parts = append(parts, f.Name+": "+value)
		}
	}
	return "{outputs: {" + strings.Join(parts, ", ") + "}}"
}

// mockEdit adds a mock to those of the whole file.
func mockEdit(t *text, key, outcome string) textEdit {
	line := key + ": " + outcome
	if m := mockKey.FindStringSubmatchIndex(t.src); m != nil {
		if m[2] >= 0 { // in braces
			rest := ", "
			if strings.HasPrefix(strings.TrimLeft(t.src[m[3]:], " "), "}") {
				rest = ""
			}
			return textEdit{t.span(m[3], m[3]), fmt.Sprintf("%q: %s%s", key, outcome, rest)}
		}
		number := t.position(m[0]).Line
		end := t.lines[number] + len(t.line(number))
		indent := "  "
		if number+1 < len(t.lines) {
			if next := t.line(number + 1); strings.TrimSpace(next) != "" && strings.HasPrefix(next, " ") {
				indent = next[:len(next)-len(strings.TrimLeft(next, " "))]
			}
		}
		return textEdit{t.span(end, end), "\n" + indent + line}
	}
	at := 0
	if m := testsKey.FindStringIndex(t.src); m != nil {
		at = m[0]
	}
	return textEdit{t.span(at, at), "mock:\n  " + line + "\n"}
}
