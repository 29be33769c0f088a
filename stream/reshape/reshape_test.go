package reshape_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/reshape"
	"github.com/stepwell/stepwell/stream/streamtest"
)

func module(t testing.TB, name string) stream.Module {
	t.Helper()
	for _, m := range reshape.Modules() {
		if m.Spec.Name == name {
			return m
		}
	}
	t.Fatalf("no module %s", name)
	return stream.Module{}
}

// config reads a config as it stands in a pipeline.
func config(t testing.TB, text string) map[string]any {
	t.Helper()
	var c map[string]any
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func open(t testing.TB, name, text string) stream.Modifier {
	t.Helper()
	r := streamtest.New(t)
	r.Env.Scope = expr.Vars{"params": map[string]any{"most": int64(10), "name": "run"}}
	opened, err := r.Open(module(t, name), config(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return opened.(stream.Modifier)
}

// modify gives the text of what becomes of an item, "" when it is dropped.
func modify(t testing.TB, m stream.Modifier, text string) (string, error) {
	t.Helper()
	out, err := m.Modify(context.Background(), streamtest.Item(t, text))
	if out == nil || err != nil {
		return "", err
	}
	return string(out.Bytes()), nil
}

func TestMap(t *testing.T) {
	const it = `{"id":"a","n":1e21,"f":100.0,"o":{"z":1,"a":[1.50,{"x":"y"}]},"l":[{"k":1},{"k":2}]}`
	for name, c := range map[string][2]string{
		"constant":        {`{set: {v: 1, w: text, x: [1, {a: null}], y: {b: true}}}`, `{"id":"a","n":1e21,"f":100.0,"o":{"z":1,"a":[1.50,{"x":"y"}]},"l":[{"k":1},{"k":2}],"v":1,"w":"text","x":[1,{"a":null}],"y":{"b":true}}`},
		"empty":           {`{remove: [n, f, o, l], set: {x: {}, y: [], z: [{}, "{{ item.id }}"]}}`, `{"id":"a","x":{},"y":[],"z":[{},"a"]}`},
		"native types":    {`{set: {l: "{{ item.l|length }}", o: "{{ item.id == 'a' }}", f: "{{ item.f / 8 }}", n: "{{ none }}"}}`, `{"id":"a","n":null,"f":12.5,"o":true,"l":2}`},
		"copied exactly":  {`{set: {id: "{{ item.n }}", l: "{{item.f}}", n: "{{ item.o }}", o: '{{ item["o"].a[1][''x''] }}', f: "{{ item.o.a[0] }}"}}`, `{"id":1e21,"n":{"z":1,"a":[1.50,{"x":"y"}]},"f":1.50,"o":"y","l":100.0}`},
		"last element":    {`{remove: [n, f, o], set: {l: "{{ item.l[-1].k }}"}}`, `{"id":"a","l":2}`},
		"whole item":      {`{remove: [n, f, o, l], set: {me: "{{ item }}"}}`, `{"id":"a","me":` + it + `}`},
		"text":            {`{remove: [n, f, o, l], set: {id: "{{ params.name }}-{{ item.id }}"}}`, `{"id":"run-a"}`},
		"inside":          {`{remove: [n, f, o, l], set: {x: {a: ["{{ item.n }}", 1, {b: "{{ item.id|upper }}", c: d}]}}}`, `{"id":"a","x":{"a":[1e21,1,{"b":"A","c":"d"}]}}`},
		"made on the way": {`{remove: [n, f, o, l], set: {'a.b."c.d".e': 1}}`, `{"id":"a","a":{"b":{"c.d":{"e":1}}}}`},
		"stars":           {`{remove: [n, f, o], set: {"l.*.k": {q: [1]}, "l[1].k.q": 2, "none.*.k": 3}}`, `{"id":"a","l":[{"k":{"q":[1]}},{"k":{"q":2}}]}`},
		"remove":          {`{remove: [n, o.a, "l.*.k", nothing.here, "l[7]"]}`, `{"id":"a","f":100.0,"o":{"z":1},"l":[{},{}]}`},
		"rename":          {`{rename: {n: o.n, o.z: z, nothing: x}}`, `{"id":"a","f":100.0,"o":{"a":[1.50,{"x":"y"}],"n":1e21},"l":[{"k":1},{"k":2}],"z":1}`},
		"swap":            {`{remove: [o, l], rename: {n: f, f: n}}`, `{"id":"a","n":100.0,"f":1e21}`},
		"rename stars":    {`{remove: [n, f, o], rename: {"l.*.k": "l.*.m.x"}}`, `{"id":"a","l":[{"m":{"x":1}},{"m":{"x":2}}]}`},
		"out of a moved":  {`{remove: [n, f, l], rename: {o: p, o.z: z}}`, `{"id":"a","z":1,"p":{"a":[1.50,{"x":"y"}]}}`},
		"set is last":     {`{remove: [n, f, o, l, id], rename: {l: x}, set: {id: "{{ item.id }}!", x: "{{ item.l[0].k }}"}}`, `{"x":1,"id":"a!"}`},
	} {
		m := open(t, "stream.map", c[0])
		for range 2 { // what was given to one item is not part of the next
			got, err := modify(t, m, it)
			if err != nil || !equalJSON(t, got, c[1]) || strings.Count(got, "1e21") != strings.Count(c[1], "1e21") || strings.Count(got, "1.50") != strings.Count(c[1], "1.50") {
				t.Errorf("%s:\n%s\nwant\n%s\n%v", name, got, c[1], err)
			}
		}
	}
}

// equalJSON compares without the order of members, numbers as texts.
func equalJSON(t testing.TB, a, b string) bool {
	t.Helper()
	canonical := func(text string) string {
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		var v any
		if err := dec.Decode(&v); err != nil {
			return err.Error() + text
		}
		out, _ := json.Marshal(v)
		return string(out)
	}
	return canonical(a) == canonical(b)
}

func TestMapFailures(t *testing.T) {
	for conf, want := range map[string][2]string{
		`{set: {properties.x: "{{ item.none.x }}"}}`: {"properties.x", "item.none.x is undefined"},
		`{set: {x: ["{{ item.id + 1 }}"]}}`:          {"x", "set x: "},
		`{set: {id.x: 1}}`:                           {"id.x", "id is a text, not an object"},
		`{set: {"l[5]": 1}}`:                         {"l[5]", "l[5] is not there"},
		`{rename: {"l.*.k": "m.*.k"}}`:               {"l.*.k", "m.*.k is not there for each * of l.*.k"},
		`{rename: {l: id.x}}`:                        {"l", "id is a text"},
	} {
		_, err := modify(t, open(t, "stream.map", conf), `{"id":"a","l":[{"k":1}]}`)
		failure, ok := errors.AsType[*stream.Error](err)
		if !ok || failure.Type != stream.DataProcessing || failure.Context.Field != want[0] || !strings.Contains(err.Error(), want[1]) {
			t.Errorf("%s: %v (%+v), want %s", conf, err, failure, want)
		}
	}
}

func TestFilter(t *testing.T) {
	const it = `{"id":"a","properties":{"eo:cloud_cover":7.5,"platform":"s2","tags":["x"],"zero":0}}`
	for when, want := range map[string]bool{
		`item.properties["eo:cloud_cover"] < 10`: true, `{{ item.properties["eo:cloud_cover"] < params.most }}`: true, `item.properties["eo:cloud_cover"] > 10`: false,
		`item.none is not defined`: true, `item.properties.none | default(5) < 10`: true, `item.properties.none is defined and item.properties.none < 10`: false,
		`"x" in item.properties.tags`: true, `item.properties.zero`: false, `item.properties`: true, `"platform" in item.properties`: true, `item.properties.platform`: true, `no`: false, `{{ item.id }}`: true,
	} {
		c, _ := yaml.Marshal(map[string]any{"when": when})
		got, err := modify(t, open(t, "stream.filter", string(c)), it)
		if err != nil || (got != "") != want || want && got != it {
			t.Errorf("%s: %q, %v", when, got, err)
		}
	}
	_, err := modify(t, open(t, "stream.filter", `{when: item.id < 1}`), it)
	if failure, ok := errors.AsType[*stream.Error](err); !ok || failure.Context.Field != "when" || failure.Type != stream.DataProcessing {
		t.Errorf("error %v", err)
	}
}

// TestFilterMissing: what becomes of an item that lacks what the condition asks for is said beforehand; it is never
// taken for false, and what is missing elsewhere fails the item whatever missing says.
func TestFilterMissing(t *testing.T) {
	const it = `{"id":"a","properties":{"nothing":null},"assets":[{"x":1},{}]}`
	for when, lacked := range map[string]bool{
		`item.properties.none < 10`: true, `item.none.none`: true, `not item.none`: true, `item.properties.nothing.x == 1`: true, `item["none"] == "x"`: true,
		`item.assets | selectattr("x")`: true, `{% for a in item.assets %}{% if a.x %}{% endif %}{% endfor %}`: true,
		`params.nothing == 1`: false, `item.id == params.none.x`: false, `item.id < 1`: false,
	} {
		for missing, kept := range map[string]bool{"fail": false, "drop": false, "keep": true, "": false} {
			c := map[string]any{"when": when}
			if missing != "" {
				c["missing"] = missing
			}
			raw, _ := yaml.Marshal(c)
			f := open(t, "stream.filter", string(raw))
			got, err := modify(t, f, it)
			if fails := !lacked || missing == "fail" || missing == ""; (err != nil) != fails || !fails && (got != "") != kept {
				t.Errorf("%s, missing: %s: %q, %v", when, missing, got, err)
			}
			outputs, _ := f.(stream.Finisher).Finish(nil)
			if n := outputs.(map[string]any)["missing"].(int64); (n == 1) != lacked {
				t.Errorf("%s, missing: %s: %d counted", when, missing, n)
			}
		}
	}
}

func TestDedupe(t *testing.T) {
	items := []string{`{"id":"1","collection":"a"}`, `{"id":"1","collection":"b"}`, `{"id":"1"}`, `{"id":"1","collection":null}`, `{"id":"\u0031","collection":"a","x":2}`,
		`{"id":1,"collection":"a"}`, `{"id":1.0,"collection":"a"}`, `{"id":"a","collection":"1"}`, `{"id":"","collection":"1a"}`, `{"collection":"1a","id":"1"}`, `{"id":"1","collection":"1a"}`}
	m := open(t, "stream.dedupe", `{}`)
	kept := ""
	for i, it := range items {
		if got, err := modify(t, m, it); err != nil {
			t.Fatal(err)
		} else if got != "" {
			kept += fmt.Sprint(" ", i)
		}
	}
	if kept != " 0 1 2 5 6 7 8 9" {
		t.Errorf("kept%s", kept)
	}
	outputs, err := m.(stream.Finisher).Finish(nil)
	if got, _ := json.Marshal(outputs); err != nil || string(got) != `{"duplicates":3}` {
		t.Errorf("%s, %v", got, err)
	}

	m = open(t, "stream.dedupe", `{by: [properties.scene]}`)
	for _, it := range []string{`{"id":"1"}`, `{"id":"1","properties":{"scene":null}}`} {
		_, err := modify(t, m, it)
		if failure, ok := errors.AsType[*stream.Error](err); !ok || failure.Context.Field != "properties.scene" {
			t.Errorf("%s: %v", it, err)
		}
	}
}

func TestDedupeLimit(t *testing.T) {
	m := open(t, "stream.dedupe", `{limit: 3}`)
	for _, id := range []string{"a", "b", "a", "c", "c"} {
		if _, err := modify(t, m, `{"id":"`+id+`"}`); err != nil {
			t.Fatal(err)
		}
	}
	_, err := modify(t, m, `{"id":"d"}`)
	if stepwell.CodeOf(err) != stepwell.CodeLimit || stepwell.HintOf(err) == "" || !strings.Contains(err.Error(), "more than 3 different items") {
		t.Errorf("error %v", err)
	}
	if failure, ok := errors.AsType[*stream.Error](err); !ok || failure.Type != stream.ModuleException {
		t.Errorf("it does not end the segment: %v", err)
	}
}

// TestDedupeApart: where one value ends and the next begins counts, whatever is in them.
func TestDedupeApart(t *testing.T) {
	m := open(t, "stream.dedupe", `{by: [a, b]}`)
	const border = `\u0003\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000`
	for _, it := range []string{`{"a":"x","b":"y` + border + `z"}`, `{"a":"x` + border + `y","b":"z"}`, `{"a":"z","b":"x"}`, `{"a":"x","b":"z"}`, `{"a":"xz","b":""}`, `{"a":["x"],"b":"z"}`, `{"a":"[\"x\"]","b":"z"}`} {
		if got, err := modify(t, m, it); got == "" || err != nil {
			t.Errorf("%s is dropped: %v", it, err)
		}
	}
}

// TestDedupeMany goes through several growths of the set.
func TestDedupeMany(t *testing.T) {
	const n = 60_000
	m := open(t, "stream.dedupe", `{by: [id]}`)
	for round := range 2 {
		for i := range n {
			if got, err := modify(t, m, fmt.Sprintf(`{"id":%d}`, i)); err != nil || (got != "") != (round == 0) {
				t.Fatalf("round %d, %d: %q, %v", round, i, got, err)
			}
		}
	}
}

// TestParallel: several goroutines share one component, constants and all.
func TestParallel(t *testing.T) {
	m := open(t, "stream.map", `{set: {a: {b: [1, {c: 2}]}, a.b2: "{{ item.id }}", "a.b[1].c": "{{ item.id }}"}, rename: {x: y}}`)
	f := open(t, "stream.filter", `{when: "item.a.b2 == item.id and params.most == 10"}`)
	var wait sync.WaitGroup
	for g := range 4 {
		wait.Go(func() {
			for i := range 500 {
				id := fmt.Sprint(g, "-", i)
				it, err := m.Modify(context.Background(), streamtest.Item(t, `{"id":"`+id+`","x":1}`))
				if err != nil {
					t.Error(err)
					return
				}
				if kept, err := f.Modify(context.Background(), it); err != nil || kept == nil {
					t.Errorf("dropped, %v", err)
				}
				if got, want := string(it.Bytes()), `{"id":"`+id+`","y":1,"a":{"b":[1,{"c":"`+id+`"}],"b2":"`+id+`"}}`; got != want {
					t.Errorf("%s\nwant %s", got, want)
				}
			}
		})
	}
	wait.Wait()
}

func TestCheck(t *testing.T) {
	for _, c := range []struct{ module, config, want string }{
		{"stream.map", `{}`, "nothing to do"},
		{"stream.map", `{set: {"a..b": 1}}`, "a step is empty"},
		{"stream.map", `{set: {"{{ params.x }}": 1}}`, "has a template in it"},
		{"stream.map", `{remove: ["a["]}`, "[ without ]"},
		{"stream.map", `{rename: {a: c, b: c}}`, "both a and b become c"},
		{"stream.map", `{rename: {a.*: c}}`, "a.* has 1 *, c has 0"},
		{"stream.map", `{rename: {a: 1}}`, "not a text"},
		{"stream.filter", `{when: "item.x <"}`, "when: "},
		{"stream.filter", `{when: "{{ item.x }} == 1"}`, "outside {{ }}"},
		{"stream.dedupe", `{by: ["a.*"]}`, "several values"},
		{"stream.dedupe", `{by: ["a["]}`, "[ without ]"},
	} {
		m := module(t, c.module)
		problems := m.Check(config(t, c.config))
		if len(problems) != 1 || !strings.Contains(problems[0].Error(), c.want) {
			t.Errorf("%s %s: %v, want %s", c.module, c.config, problems, c.want)
		}
		_, err := m.Open(context.Background(), streamtest.New(t).Env, config(t, c.config))
		if failure, ok := errors.AsType[*stream.Error](err); !ok || failure.Type != stream.ConfigurationError {
			t.Errorf("%s %s opens: %v", c.module, c.config, err)
		}
	}
	for _, conf := range []string{`{remove: ["{{ params.path }}"]}`, `{rename: {a: "{{ params.path }}", b: "{{ params.other }}"}}`, `{set: {a: "{{ item.b }}"}}`} {
		if problems := module(t, "stream.map").Check(config(t, conf)); len(problems) != 0 {
			t.Errorf("%s: %v", conf, problems)
		}
	}
}

// TestSpecs compiles every Spec, and checks its examples as the segment does.
func TestSpecs(t *testing.T) {
	for _, m := range reshape.Modules() {
		checker, err := spec.Compile(m.Spec.Params, m.Spec.OpenParams)
		if err != nil {
			t.Fatal(err)
		}
		if m.Spec.Stream == nil || m.Spec.Stream.Role != spec.Modifier || m.Spec.Summary == "" || m.Spec.Doc == "" || len(m.Spec.Examples) == 0 {
			t.Errorf("%s does not describe itself", m.Spec.Name)
		}
		if m.Spec.Stream.Parallel == (m.Spec.Name == "stream.dedupe") {
			t.Errorf("%s: parallel %v", m.Spec.Name, m.Spec.Stream.Parallel)
		}
		for _, e := range m.Spec.Examples {
			step := config(t, e.YAML)
			conf, _ := step["config"].(map[string]any)
			if problems := checker.Check(conf); len(problems) > 0 || step["module"] != m.Spec.Name {
				t.Errorf("%s: %v", e.Title, problems)
			}
			if problems := m.Check(checker.Apply(conf)); len(problems) > 0 {
				t.Errorf("%s: %v", e.Title, problems)
			}
		}
		for _, wrong := range []string{`{unknown: 1}`, `{when: 1, set: 1, by: 1}`, `{keep: last, remove: x}`} {
			if problems := checker.Check(config(t, wrong)); len(problems) == 0 {
				t.Errorf("%s accepts %s", m.Spec.Name, wrong)
			}
		}
	}
}

// TestExampleRuns: what the documentation shows does what it says.
func TestExampleRuns(t *testing.T) {
	m := module(t, "stream.map")
	conf := config(t, m.Spec.Examples[0].YAML)["config"].(map[string]any)
	r := streamtest.New(t)
	r.Env.Scope = expr.Vars{"params": map[string]any{"collection": "c"}}
	opened, err := r.Open(m, conf)
	if err != nil {
		t.Fatal(err)
	}
	got, err := modify(t, opened.(stream.Modifier), `{"id":"s2","properties":{"platform":"p","cloudCover":1.50,"internal":true},"assets":{"a":{"href":"h","token":"t"}}}`)
	want := `{"id":"s2","properties":{"platform":"p","eo:cloud_cover":1.50,"keywords":["p","optical"],"title":"S2"},"assets":{"a":{"href":"h"}},"collection":"c"}`
	if err != nil || got != want {
		t.Errorf("%s, %v\nwant %s", got, err, want)
	}
	if !slices.Equal([]string{"stream.map", "stream.filter", "stream.dedupe"}, names()) {
		t.Errorf("modules %v", names())
	}
}

func names() (out []string) {
	for _, m := range reshape.Modules() {
		out = append(out, m.Spec.Name)
	}
	return out
}
