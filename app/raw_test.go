package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/spec"
)

// raws lists the fields below some that are left to the handler to render, outermost ones.
func raws(at string, fields []spec.Field) []string {
	var out []string
	for i := range fields {
		f := &fields[i]
		switch name := at + "." + f.Name; {
		case f.Raw:
			out = append(out, name)
		default:
			out = append(out, raws(name, f.Fields)...)
			if f.Items != nil {
				out = append(out, raws(name, []spec.Field{*f.Items})...)
			}
		}
	}
	return out
}

// reading is a text that names an output of another step, a parameter and a secret.
const reading = "steps.lim.outputs.max ~ params.p ~ secrets.api"

// holding is a condition on the same three that does not tell the secret.
const holding = "steps.lim.outputs.max == 5 and params.p == 'p-value' and (secrets.api | length) == 16"

// rawUses has a step for every raw field of every action and module, which works only if all that it names reaches
// it: {R} and {C} are the expressions above, {W} is what the first gives. A module is put behind `rows`, the items of a file, and gives its
// items to a file of its own name, which must then hold the text beside it.
var rawUses = map[string][2]string{
	"util.condition.condition":    {`{action: util.condition, params: {condition: "{C}", true_result: "ok"}}`, ""},
	"util.condition.true_result":  {`{action: util.condition, params: {condition: true, true_result: "{{ {R} }}"}}`, "{W}"},
	"util.condition.false_result": {`{action: util.condition, params: {condition: false, false_result: {a: ["{{ {R} }}"]}}}`, "{W}"},
	"util.condition.branches":     {`{action: util.condition, params: {branches: [{id: ok, condition: "{C}", label: "is {{ {R} }}"}]}}`, "is {W}"},
	"util.switch.cases":           {`{action: util.switch, params: {value: 1, cases: [{condition: "{C}", result: "{{ {R} }}"}]}}`, "{W}"},
	"util.switch.default":         {`{action: util.switch, params: {value: 1, cases: [{value: 2}], default: "{{ {R} }}"}}`, "{W}"},
	"util.filter.condition":       {`{action: util.filter, params: {items: [1, 2], condition: "item == 1 and {C}"}}`, `"count":1`},
	"util.transform.expression":   {`{action: util.transform, params: {input: 1, expression: "{{ input ~ ({R}) }}"}}`, "1{W}"},
	"util.while.condition":        {`{action: util.while, params: {condition: "not ({C})", action: util.set_output, action_params: {outputs: {a: "{{ {R} }}"}}}}`, "{W}"},
	"util.while.action_params":    {`{action: util.while, params: {condition: false, action: util.set_output, action_params: {outputs: {a: "{{ {R} }}"}}}}`, "{W}"},
	"util.http.outputs":           {`{action: util.http, params: {url: "URL/x", outputs: {v: "body.n ~ ({R})"}}}`, "1{W}"},
	"util.http.success_if":        {`{action: util.http, params: {url: "URL/x", success_if: "{C}"}}`, ""},
	"util.http.poll":              {`{action: util.http, params: {url: "URL/x", poll: {job: "body.n ~ ({R})", url: "URL/job/{{ job | urlencode }}", until: "body.n == 1 and {C}"}}}`, ""},
	"stream.filter.when":          {`{when: "item.n <= steps.lim.outputs.max and {C}"}`, `"n":1`},
	"stream.map.set":              {`{set: {v: "{{ {R} }}"}}`, `"v":"{W}"`},
	"stream.read.id":              {`{path: rows.csv, id: "{{ item.n ~ ({R}) }}"}`, `"id":"1{W}"`},
	"stac.output.split":           {"", ""}, // a pattern of its own, in which templates are refused
}

// TestRawFields: the templates in what a handler renders itself are references like all others: the outputs, params
// and secrets that they name reach them, through a whole execution. Every raw field there is has to be in the table.
func TestRawFields(t *testing.T) {
	answer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"n":1}`)
	}))
	defer answer.Close()
	r := newStreamRig(t)
	r.o.HTTP.AllowPrivate = true
	if err := os.WriteFile(filepath.Join(r.dir, "rows.csv"), []byte("n\n1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const key = "Vv7+plain-wordZZ"
	fill := strings.NewReplacer("{R}", reading, "{C}", holding, "{W}", "5p-value"+key, "URL", answer.URL).Replace
	doc := "name: raw\nparameters: [{name: p, type: string, default: p-value}]\nsteps:\n  - {id: lim, action: util.set_output, params: {outputs: {max: 5}}}\n"
	r.with(func(a *app.App) {
		if _, err := a.Secrets.Vault.Set(t.Context(), "api", key, 0, "tester"); err != nil {
			t.Fatal(err)
		}
		wants := map[string]string{}
		files := []string{"rows.csv", "stepwell.db.key", "master.key"}
		for _, s := range a.Actions.Specs() {
			for _, name := range raws(s.Name, s.Params) {
				use, ok := rawUses[name]
				if !ok {
					t.Errorf("no execution uses the raw field %s", name)
				}
				id := strings.ReplaceAll(name, ".", "_")
				switch {
				case use[0] == "":
					continue
				case s.Stream == nil:
					doc += "  - {id: " + id + ", depends_on: [lim], " + strings.TrimPrefix(fill(use[0]), "{") + "\n"
				default:
					files = append(files, id+".ndjson")
					from := "  - {id: " + id + ", depends_on: [lim], module: " + s.Name + ", config: " + fill(use[0]) + "}\n"
					if s.Stream.Role != spec.Source {
						from = "  - {id: rows_" + id + ", depends_on: [lim], module: stream.read, config: {path: rows.csv}}\n" + strings.Replace(from, "[lim]", "[rows_"+id+"]", 1)
					}
					doc += from + "  - {id: out_" + id + ", module: stream.write, depends_on: [" + id + "], config: {path: " + id + ".ndjson}}\n"
				}
				wants[id] = fill(use[1])
			}
		}
		execution := r.start(a, doc)
		_, steps := r.end(a, execution)
		for id, want := range wants {
			step := steps[id]
			if step.Status != stepwell.StepCompleted {
				t.Errorf("%s is %v: %+v", id, step.Status, step.Error)
				continue
			}
			text, err := a.Secrets.Open(execution, step.Output)
			if raw, ok := written(t, filepath.Join(r.dir, id+".ndjson")); ok {
				text = raw
			}
			if err != nil || !strings.Contains(string(text), want) {
				t.Errorf("%s gave %s, %v, without %s", id, text, err, want)
			}
		}
		search(t, r.dir, files, forms(key))
	})
}

func written(t *testing.T, path string) ([]byte, bool) {
	raw, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return raw, err == nil
}

// TestRawReads: what a raw field names is among the reads of its step, and secrets are known to be needed, whatever
// the field and however deep its templates are.
func TestRawReads(t *testing.T) {
	r, err := app.Actions(app.Options{})
	if err != nil {
		t.Fatal(err)
	}
	fields := 0
	for _, s := range r.Specs() {
		for _, name := range raws(s.Name, s.Params) {
			field := strings.TrimPrefix(name, s.Name+".")
			if strings.Contains(field, ".") {
				t.Fatalf("the raw field %s is inside of another: put it into the list of this test", name)
			}
			fields++
			params := map[string]any{field: []any{map[string]any{"x": "{{ " + reading + " }}"}}}
			d := &definition.Definition{Name: "raw", Steps: []definition.Step{{ID: "lim", Action: "util.noop"}, {ID: "a", DependsOn: []string{"lim"}}}}
			if step := &d.Steps[1]; s.Stream == nil {
				step.Action, step.Params = s.Name, params
			} else {
				step.Module, step.Config = s.Name, params
			}
			p, err := plan.Compile(d, r)
			if err != nil {
				t.Fatal(err)
			}
			step := p.Graph.Steps[1]
			if !step.Secrets || !step.Scoped || !slices.Equal(step.Reads, []plan.Read{{Step: 0}}) || !p.Graph.Steps[0].Keep {
				t.Errorf("%s: secrets %v, reads %v", name, step.Secrets, step.Reads)
			}
		}
	}
	if fields < 10 {
		t.Errorf("only %d raw fields", fields)
	}
}
