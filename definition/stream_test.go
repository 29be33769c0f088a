package definition_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/spec"
)

func parsed(t *testing.T, src string, o definition.ParseOptions) *definition.Definition {
	t.Helper()
	d, problems := definition.Parse([]byte(src), o)
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return d
}

const matrixDocument = `
name: Nightly
settings: {default_concurrency: {concurrency: 3, rate_limit: 2.5}}
strategy:
  matrix:
    - {collection_id: s2/l2a, out: a, max: 5}
    - {collection_id: naip, out: b, max: 6}
    - {out: c, max: 7}
steps:
  - {id: ingest, module: IngestModule, config: {source: "x-${out}.json", max_items: "${max}"}}
  - {id: output, module: OutputModule, depends_on: [ingest], config: {format: json, base_dir: "${out}"}}
`

// Every entry of a matrix is a pipeline of its own: its values replace ${NAME}, before the environment, and values
// without a ${NAME} are offered to the modules that know them (stac-manager §8).
func TestMatrix(t *testing.T) {
	env := func(name string) (string, bool) { return "from the environment", name == "out" }
	d := parsed(t, matrixDocument, definition.ParseOptions{Env: env})
	if diff := cmp.Diff([]string{"nightly-s2-l2a", "nightly-naip", "nightly-3"}, d.Matrix); diff != "" {
		t.Error(diff)
	}
	if d.Settings.FailFast != definition.FailFastOff || len(d.Steps) != 3 || d.Steps[1].Pipeline != "nightly-naip" || d.Settings.MaxParallelSteps != 3 {
		t.Errorf("the pipelines do not run side by side: %+v", d)
	}
	first := d.Pipelines["nightly-s2-l2a"]
	if first.Entry != "nightly-s2-l2a" || first.Steps[0].Config["source"] != "x-a.json" || first.Steps[0].Config["max_items"] != int64(5) {
		t.Errorf("the values are not put in: %+v", first.Steps[0].Config)
	}
	if diff := cmp.Diff(map[string]any{"collection_id": "s2/l2a"}, first.Offer); diff != "" {
		t.Error(diff)
	}
	about, _ := actions().Spec("IngestModule")
	want := map[string]any{"source": "x-a.json", "max_items": int64(5), "collection_id": "s2/l2a", "concurrency": int64(3), "rate_limit": 2.5}
	if diff := cmp.Diff(want, definition.ModuleConfig(first, &first.Steps[0], about)); diff != "" {
		t.Error(diff)
	}
	if err := definition.Check(d, actions(), "").Err(); err != nil {
		t.Error(err)
	}
	again, err := definition.Encode(d)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := definition.Decode(again); err != nil {
		t.Error(err)
	}
}

// Problems in the entries are reported once, with their place.
func TestMatrixProblems(t *testing.T) {
	for doc, want := range map[string]string{
		"name: x\nstrategy: {matrix: {a: b}}\nsteps: [{id: a, action: util.noop}]":                                  "matrix must be a list of mappings",
		"name: x\nstrategy: {matrix: [1]}\nsteps: [{id: a, action: util.noop}]":                                     "an entry of the matrix must be a mapping",
		"name: x\nstrategy: {matrix: [{\"a b\": 1}]}\nsteps: [{id: a, action: util.noop}]":                          "is not possible",
		"name: x\nstrategy: {matrix: [{a: 1}, {b: 1}]}\nsteps: [{id: a, action: util.noop, params: {x: \"${a}\"}}]": "${a} has no value",
		"name: x\nstrategy: {matrix: [{a: 1}, {a: 2}]}\nsteps: [{id: a, action: util.noop, bad: 1}]":                "unknown key \"bad\"",
	} {
		_, problems := definition.Parse([]byte(doc), definition.ParseOptions{Env: func(string) (string, bool) { return "", false }})
		if len(problems) != 1 || !strings.Contains(problems[0].Message, want) || problems[0].Line == 0 {
			t.Errorf("%s\n%v", doc, problems)
		}
	}
}

// The variables of a dotenv file come behind the environment's.
func TestDotenv(t *testing.T) {
	const doc = "name: x\nsettings: {input_secrets: {dotenv_path: secrets.env}}\nsteps: [{id: a, action: util.log, params: {message: \"${A} ${B}\"}}]"
	o := definition.ParseOptions{Env: func(name string) (string, bool) { return "env", name == "A" },
		Dotenv: func(path string) (map[string]string, error) {
			if path != "secrets.env" {
				t.Errorf("read %s", path)
			}
			return map[string]string{"A": "file", "B": "file"}, nil
		}}
	if got := parsed(t, doc, o).Steps[0].Params["message"]; got != "env file" {
		t.Errorf("got %q", got)
	}
	o.Dotenv = func(string) (map[string]string, error) { return nil, os.ErrNotExist }
	if _, problems := definition.Parse([]byte(doc), o); len(problems) != 1 || problems[0].Line != 2 {
		t.Errorf("a missing file: %v", problems)
	}
}

type withReport struct{ catalog }

func (c withReport) Spec(name string) (*spec.Spec, bool) {
	if name == "stream.report" {
		return &spec.Spec{Name: name, OpenParams: true}, true
	}
	return c.catalog.Spec(name)
}

// Expand gives each collection of a discovery a stream of its own, and the pipeline its report. It does so once.
func TestExpand(t *testing.T) {
	d := parsed(t, `
name: x
settings: {output_failures: bad.json}
steps:
  - {id: collections, action: util.noop}
  - {id: discover, module: DiscoveryModule}
  - {id: ingest, module: IngestModule, depends_on: [discover, collections]}
  - {id: side, module: OutputModule, depends_on: [discover], config: {format: json}}
  - {id: output, module: OutputModule, depends_on: [ingest], config: {format: json}}
  - {id: after, action: util.noop, depends_on: [output, ingest]}
`, definition.ParseOptions{})
	cat := withReport{actions()}
	out := definition.Expand(d, cat)
	var ids []string
	for _, s := range out.Steps {
		ids = append(ids, s.ID)
	}
	if diff := cmp.Diff([]string{"collections", "discover", "discover_collections", "side", "after"}, ids); diff != "" {
		t.Fatal(diff)
	}
	group := out.Steps[2]
	if group.ForEach.MaxConcurrency != 5 || !group.Independent || len(group.Steps) != 2 || len(group.Steps[0].DependsOn) != 0 || group.Steps[1].DependsOn[0] != "ingest" {
		t.Errorf("the group: %+v", group)
	}
	if diff := cmp.Diff([]string{"discover", "collections"}, group.DependsOn); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"discover_collections"}, out.Steps[4].DependsOn); diff != "" {
		t.Error(diff)
	}
	if len(out.Finally) != 1 || out.Finally[0].Params["failures"] != "bad.json" || out.Finally[0].Params["steps"] != int64(4) {
		t.Errorf("the report: %+v", out.Finally)
	}
	if len(d.Steps) != 6 || len(d.Finally) != 0 {
		t.Error("the definition itself was changed")
	}
	if definition.Expand(out, cat) != out {
		t.Error("what was expanded is expanded again")
	}
}

// Keys that a stream step cannot have, and missing sources of items, are reported.
func TestStreamProblems(t *testing.T) {
	for step, want := range map[string]string{
		"{id: b, module: ValidateModule}":                                         `no items reach the stream step "b"`,
		"{id: b, module: ValidateModule, depends_on: [sink]}":                     "no items reach",
		"{id: b, module: OutputModule, depends_on: [work], config: {format: x}}":  "no items reach",
		"{id: b, module: ValidateModule, depends_on: [a], condition: \"1 == 1\"}": "a stream step has no condition",
		"{id: b, module: ValidateModule, depends_on: [a], for_each: 3}":           "a stream step has no for_each",
		"{id: b, module: ValidatModule, depends_on: [a]}":                         `unknown module "ValidatModule"`,
		"{id: b, module: util.log}":                                               "is an action, not a stream module",
		"{id: b, action: IngestModule}":                                           "is a stream module, not an action",
		"{id: b, module: OutputModule, depends_on: [a], config: {format: 3}}":     "config.format must be",
	} {
		d := parsed(t, "name: x\nsteps:\n  - {id: a, module: IngestModule}\n  - {id: sink, module: OutputModule, depends_on: [a], config: {format: json}}\n  - {id: work, action: util.noop}\n  - "+step+"\n", definition.ParseOptions{})
		problems := definition.Check(d, actions(), "")
		if len(problems) != 1 || !strings.Contains(problems[0].Message, want) || problems[0].Line != 6 {
			t.Errorf("%s: %v", step, problems)
		}
	}
	d := parsed(t, "name: x\nsteps: [{id: table, module: TransformModule}, {id: b, module: ValidateModule, depends_on: [table]}]", definition.ParseOptions{})
	if err := definition.Check(d, actions(), "").Err(); err != nil {
		t.Errorf("a module that is a source too: %v", err)
	}
}

// TestExpandTwice: two discoveries make two groups, also of sources that the document has before them.
func TestExpandTwice(t *testing.T) {
	d := parsed(t, `
name: x
steps:
  - {id: first, module: IngestModule, depends_on: [one]}
  - {id: second, module: IngestModule, depends_on: [two]}
  - {id: one, module: DiscoveryModule}
  - {id: two, module: DiscoveryModule}
`, definition.ParseOptions{})
	var ids []string
	for _, s := range definition.Expand(d, actions()).Steps {
		ids = append(ids, s.ID)
	}
	if diff := cmp.Diff([]string{"one", "collections", "two", "two_collections"}, ids); diff != "" {
		t.Error(diff)
	}
}

// spreadActions are of workers on several machines, and know where OutputModule writes.
type spreadActions struct{ definition.Catalog }

func (spreadActions) IsSpread() bool { return true }

func (a spreadActions) Spec(name string) (*spec.Spec, bool) {
	s, ok := a.Catalog.Spec(name)
	if name != "OutputModule" {
		return s, ok
	}
	about, role := *s, *s.Stream
	role.Writes = &spec.Writes{Places: []string{"base_dir"}}
	about.Stream = &role
	return &about, ok
}

// TestLocalOutput: where workers are on several machines, a stream that writes to a folder says which of them share it.
func TestLocalOutput(t *testing.T) {
	const problem = "writes to the folder of whichever worker gets it"
	for steps, want := range map[string]string{
		`[{id: a, module: IngestModule}, {id: b, module: OutputModule, depends_on: [a], config: {format: json, base_dir: out}}]`:                                                                problem,
		`[{id: a, module: IngestModule}, {id: b, module: OutputModule, depends_on: [a], config: {format: json, base_dir: "out/{{ params.x }}"}}]`:                                               problem,
		`[{id: a, module: IngestModule}, {id: b, module: OutputModule, depends_on: [a], config: {format: json, base_dir: "{{ params.x }}"}}]`:                                                   "",
		`[{id: a, module: IngestModule}, {id: b, module: OutputModule, depends_on: [a], config: {format: json, base_dir: "s3://b/out"}}]`:                                                       "",
		`[{id: a, module: IngestModule}, {id: b, module: OutputModule, depends_on: [a], queue: disk, config: {format: json, base_dir: out}}]`:                                                   "",
		`[{id: a, module: IngestModule, queue: disk}, {id: m, module: ValidateModule, depends_on: [a]}, {id: b, module: OutputModule, depends_on: [m], config: {format: json, base_dir: out}}]`: "",
		`[{id: g, queue: disk, steps: [{id: a, module: IngestModule}, {id: b, module: OutputModule, depends_on: [a], config: {format: json, base_dir: out}}]}]`:                                 "",
		`[{id: o, module: IngestModule, queue: disk}, {id: a, module: IngestModule}, {id: b, module: OutputModule, depends_on: [a], config: {format: json, base_dir: out}}]`:                    problem,
	} {
		d := parsed(t, "name: x\nparameters: [{name: x, type: string, default: y}]\nsteps: "+steps+"\n", definition.ParseOptions{})
		err := definition.Check(d, spreadActions{actions()}, "").Err()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", steps, err)
		}
		if err := definition.Check(d, actions(), "").Err(); err != nil {
			t.Errorf("on one machine: %s: %v", steps, err)
		}
	}
}
