package definition_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/spec"
)

var update = flag.Bool("update", false, "rewrite golden files")

// catalog is a set of actions for tests; it refuses URLs of other schemes, as a handler would.
type catalog map[string]*spec.Spec

func (c catalog) Spec(name string) (*spec.Spec, bool) { s, ok := c[name]; return s, ok }
func (c catalog) Names() []string                     { return slices.Sorted(maps.Keys(c)) }

func (c catalog) Validate(name string, params map[string]any) []error {
	if url, ok := params["url"].(string); ok && name == "util.http" && !strings.HasPrefix(url, "http") {
		return []error{errors.New("url must begin with http:// or https://")}
	}
	return nil
}

func number(n float64) *float64 { return &n }

func actions() catalog {
	c := catalog{
		"util.log": {Name: "util.log", Params: []spec.Field{
			{Name: "message", Type: spec.String, Required: true, Doc: "What to log."},
			{Name: "level", Type: spec.String, Enum: []string{"debug", "info", "warning", "error"}, Default: "info"},
		}},
		"util.http": {Name: "util.http", Params: []spec.Field{
			{Name: "url", Type: spec.String, Required: true},
			{Name: "method", Type: spec.String, Enum: []string{"GET", "POST", "PUT", "DELETE"}},
			{Name: "retries", Type: spec.Integer, Min: number(0), Max: number(10)},
			{Name: "follow", Type: spec.Boolean},
			{Name: "timeout", Type: spec.Duration},
			{Name: "limit_seconds", Type: spec.Number, Default: 30, Limit: true},
			{Name: "timeouts", Type: spec.Object, Fields: []spec.Field{{Name: "total", Type: spec.Duration, Limit: true}}},
			{Name: "headers", Type: spec.Object},
			{Name: "body", Type: spec.Any},
			{Name: "checks", Type: spec.Array, Items: &spec.Field{Type: spec.Object, Fields: []spec.Field{
				{Name: "path", Type: spec.String, Required: true}, {Name: "equals", Type: spec.Any}}}},
		}},
		"util.while": {Name: "util.while", Params: []spec.Field{
			{Name: "condition", Type: spec.String, Required: true, Raw: true},
			{Name: "action", Type: spec.String, Required: true},
			{Name: "action_params", Type: spec.Object, Raw: true},
			{Name: "max_iterations", Type: spec.Integer, Default: 100},
			{Name: "delay_seconds", Type: spec.Number},
			{Name: "timeout_seconds", Type: spec.Number},
		}},
		"filter": {Name: "filter", Params: []spec.Field{{Name: "items", Type: spec.Array}, {Name: "condition", Type: spec.Any, Raw: true}}},
	}
	for _, open := range []string{"util.noop", "util.wait", "util.transform", "util.condition", "util.set_output", "external.k8s.job",
		"internal.model.onboard", "internal.budsim.simulate", "internal.deployment.deploy", "internal.notify.send",
		"internal.cluster.health", "internal.test.action", "conditional", "switch", "util.switch", "transform", "aggregate", "set_output", "fail",
		"desk.submit", "desk.status", "desk.notify", "fleet.model", "fleet.cluster", "fleet.tune", "fleet.existing", "fleet.backup", "fleet.deploy",
		"fleet.progress", "fleet.health", "fleet.promote", "fleet.rollback", "fleet.register", "fleet.check"} {
		c[open] = &spec.Spec{Name: open, OpenParams: true}
	}
	for _, name := range []string{"DiscoveryModule", "IngestModule", "SeedModule"} {
		c[name] = &spec.Spec{Name: name, OpenParams: true, Stream: &spec.Stream{Role: spec.Source, TakesItems: name == "IngestModule", Report: "stream.report"},
			Params: []spec.Field{{Name: "collection_id", Type: spec.String}, {Name: "concurrency", Type: spec.Integer}, {Name: "rate_limit", Type: spec.Number}}}
	}
	c["DiscoveryModule"].Stream.FansOut = &spec.FansOut{Output: "collections", As: "collection"}
	for _, name := range []string{"ExtensionModule", "TransformModule", "UpdateModule", "ValidateModule", "ScaffoldModule"} {
		c[name] = &spec.Spec{Name: name, OpenParams: true, Stream: &spec.Stream{Role: spec.Modifier, Parallel: true, AlsoSource: name == "TransformModule"}}
	}
	c["UpdateModule"].Stream.Sets = []spec.Sets{{Keys: "updates"}, {Values: "removes"}, {Path: "properties.updated"}}
	c["ExtensionModule"].Stream.Sets = []spec.Sets{{Keys: "defaults", Nested: true}, {Path: "stac_extensions"}}
	c["OutputModule"] = &spec.Spec{Name: "OutputModule", OpenParams: true, Stream: &spec.Stream{Role: spec.Sink}, Params: []spec.Field{{Name: "format", Type: spec.String, Required: true}}}
	outputs := []spec.Field{{Name: "count", Type: spec.Integer}, {Name: "result", Type: spec.Any}}
	c["measure"] = &spec.Spec{Name: "measure", Outputs: outputs, Params: []spec.Field{{Name: "when", Type: spec.String, Raw: true, Bare: true, Names: []string{"item"}}, {Name: "text", Type: spec.String, Raw: true}}}
	c["measure.more"] = &spec.Spec{Name: "measure.more", Outputs: outputs, OpenOutputs: true}
	c["stream.pick"] = &spec.Spec{Name: "stream.pick", Stream: &spec.Stream{Role: spec.Modifier}, Outputs: []spec.Field{{Name: "items_in", Type: spec.Integer}},
		Params: []spec.Field{{Name: "when", Type: spec.String, Raw: true, Bare: true, Names: []string{"item"}}}}
	c["log"], c["while"] = c["util.log"], c["util.while"]
	return c
}

// variables is the environment of the test documents.
func variables(name string) (string, bool) {
	v, ok := map[string]string{"SET": "8080", "EVIL": "{{ secrets.token }}", "BRACE": "{", "WORD": "text", "EMPTY": ""}[name]
	return v, ok
}

// others are the pipelines that test documents may run as steps.
func others(t *testing.T) map[string]*definition.Definition {
	all := map[string]*definition.Definition{}
	for _, src := range []string{
		"name: child\nparameters: [{name: count, type: integer}, {name: label, default: x}]\nsteps: [{id: a, action: util.noop}]",
		"name: loop-a\nsteps: [{id: a, pipeline: loop-b}]",
		"name: loop-b\nsteps: [{id: g, steps: [{id: b, pipeline: loop-a}]}]",
	} {
		d, problems := definition.Parse([]byte(src), definition.ParseOptions{})
		if problems != nil {
			t.Fatal(problems)
		}
		all[d.Name] = d
	}
	return all
}

// report runs a document through Parse and Check and writes down everything that was found.
func report(t *testing.T, file string, src []byte) string {
	name := filepath.Base(file)
	d, problems := definition.Parse(src, definition.ParseOptions{File: name, Env: variables})
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintf(&b, "%s\n    at %q\n", p, p.Path)
	}
	if d != nil {
		d.Pipelines = others(t)
		for _, p := range definition.Check(d, actions(), name) {
			fmt.Fprintf(&b, "check %s\n    at %q\n", p, p.Path)
		}
	}
	return b.String()
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func documents(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", folder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(f string) bool { return filepath.Ext(f) != ".yaml" && filepath.Ext(f) != ".json" })
	if len(files) == 0 {
		t.Fatalf("no documents in testdata/%s", folder)
	}
	return files
}

// Every bad document is refused with exactly the recorded messages.
func TestBadDocuments(t *testing.T) {
	files := documents(t, "bad")
	if len(files) < 60 {
		t.Errorf("only %d bad documents", len(files))
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := report(t, file, src)
			if got == "" {
				t.Error("nothing was found")
			}
			golden(t, file+".want", got)
		})
	}
}

// Every good document is accepted, with exactly the recorded warnings.
func TestGoodDocuments(t *testing.T) {
	for _, file := range documents(t, "good") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			d, problems := definition.Parse(src, definition.ParseOptions{File: filepath.Base(file), Env: variables})
			if err := problems.Err(); err != nil {
				t.Fatal(err)
			}
			own := d.Pipelines
			d.Pipelines = others(t)
			maps.Copy(d.Pipelines, own)
			checked := definition.Check(d, actions(), filepath.Base(file))
			if err := checked.Err(); err != nil {
				t.Fatal(err)
			}
			d.Pipelines = own
			raw, err := definition.Encode(d)
			if err != nil {
				t.Fatal(err)
			}
			got := indented(t, raw)
			for _, p := range append(problems, checked...) {
				got += p.String() + "\n"
			}
			golden(t, file+".want", got)
		})
	}
}
