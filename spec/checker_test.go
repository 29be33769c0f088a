package spec_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/stepwell/stepwell/spec"
)

func bound(n float64) *float64 { return &n }

var fields = []spec.Field{
	{Name: "url", Type: spec.String, Required: true, Doc: "Where to.", Pattern: "^https?://", Max: bound(30)},
	{Name: "method", Type: spec.String, Enum: []string{"GET", "POST"}, Default: "GET"},
	{Name: "retries", Type: spec.Integer, Min: bound(0), Max: bound(5), Default: 3},
	{Name: "rate", Type: spec.Number, Min: bound(0.5)},
	{Name: "follow", Type: spec.Boolean},
	{Name: "timeout", Type: spec.Duration, Max: bound(3600), Default: "30s"},
	{Name: "after", Type: spec.Time},
	{Name: "cluster", Type: spec.Ref},
	{Name: "body", Type: spec.Any},
	{Name: "token", Type: spec.String, Secret: true, Enum: []string{"a"}},
	{Name: "raw", Type: spec.Integer, Raw: true},
	{Name: "tags", Type: spec.Array, Items: &spec.Field{Type: spec.String, Min: bound(2)}, Max: bound(3)},
	{Name: "options", Type: spec.Object, Fields: []spec.Field{
		{Name: "depth", Type: spec.Integer, Default: 1},
		{Name: "share", Type: spec.Number},
		{Name: "name", Type: spec.String, Required: true}}},
	{Name: "headers", Type: spec.Object},
}

func compile(t testing.TB, fields []spec.Field, open bool) *spec.Checker {
	t.Helper()
	c, err := spec.Compile(fields, open)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCheck(t *testing.T) {
	c := compile(t, fields, false)
	for _, tt := range []struct {
		name  string
		value any
		want  string // "" for none
	}{
		{"method", "POST", ""}, {"method", "post", `method must be one of GET, POST, not "post" (did you mean POST?)`},
		{"method", nil, ""}, {"method", 3, "method must be a text, not 3 (quote it)"},
		{"url", "http://x", ""}, {"url", "ftp://x", `url does not have the form ^https?://, not "ftp://x" (Where to.)`},
		{"url", "http://" + strings.Repeat("ä", 24), "url must have at most 30 characters, not 31"}, {"url", "http://" + strings.Repeat("ä", 23), ""},
		{"url", nil, "url is missing (string: Where to.)"},
		{"retries", int64(5), ""}, {"retries", 5, ""}, {"retries", 5.0, ""}, {"retries", json.Number("5"), ""},
		{"retries", 6, "retries must be at most 5, not 6"}, {"retries", -1, "retries must be at least 0, not -1"},
		{"retries", 2.5, "retries must be a whole number, not 2.5"}, {"retries", "2", `retries must be a whole number, not "2" (write it without quotes)`},
		{"retries", true, "retries must be a whole number, not true"},
		{"rate", 1, ""}, {"rate", 0.5, ""}, {"rate", 0.25, "rate must be at least 0.5, not 0.25"}, {"rate", []any{}, "rate must be a number, not a list"},
		{"follow", false, ""}, {"follow", "no", `follow must be true or false, not "no" (write false, without quotes)`}, {"follow", 1, "follow must be true or false, not 1"},
		{"timeout", 90, ""}, {"timeout", "1h", ""}, {"timeout", "2h", "timeout must be at most 3600 seconds, not 7200"}, {"timeout", -1, `timeout must be a number of seconds or a text such as "1h30m", not -1`},
		{"after", "2026-01-31T12:00:00+01:00", ""}, {"after", "tomorrow", `after must be a time such as 2026-01-31T12:00:00Z, not "tomorrow"`},
		{"cluster", "c-1", ""}, {"cluster", "", "cluster is empty (it names something that must exist)"},
		{"body", nil, ""}, {"body", []any{map[string]any{}}, ""},
		{"token", "hunter2", "token must be one of a"}, {"token", 12345, "token must be a text (quote it)"},
		{"raw", "{{ index }}", ""}, {"retries", "{{ index }}", `retries must be a whole number, not "{{ index }}"`},
		{"tags", []any{"ab", "cd"}, ""}, {"tags", []string{"ab"}, ""}, {"tags", "ab", `tags must be a list, not "ab" (write a list: ["ab"])`},
		{"tags", []any{"ab", "c"}, "tags[1] must have at least 2 characters, not 1"}, {"tags", []any{"ab", "ab", "ab", "ab"}, "tags must have at most 3 elements, not 4"},
		{"tags", []any{nil}, "tags[0] must be a text, not null (quote it)"},
		{"options", map[string]any{"name": "x"}, ""}, {"options", map[string]any{}, "options.name is missing (give it a value of type string)"},
		{"options", map[string]any{"name": "x", "deth": 1}, "options.deth is unknown (did you mean depth?)"},
		{"headers", map[string]any{"any": []any{1}}, ""}, {"headers", "x", `headers must be an object, not "x"`},
		{"uri", "x", "uri is unknown (did you mean url?)"}, {"zzzzzz", 1, "zzzzzz is unknown (known are url, method, retries, rate, follow, timeout, after, cluster, body, token, raw, tags, options, headers)"},
	} {
		values := map[string]any{"url": "https://example.org"}
		values[tt.name] = tt.value
		var got []string
		for _, m := range c.Check(values) {
			got = append(got, m.String())
		}
		if strings.Join(got, "; ") != tt.want {
			t.Errorf("%s: %v\n got %q\nwant %q", tt.name, tt.value, got, tt.want)
		}
	}
}

func TestCheckFindsEverything(t *testing.T) {
	got := spec.Check(fields, false, map[string]any{"method": "x", "retries": "y", "options": map[string]any{"depth": "z"}, "b": 1, "a": 2})
	var paths []string
	for _, m := range got {
		paths = append(paths, m.Path)
	}
	if s := strings.Join(paths, " "); s != "url method retries options.depth options.name a b" {
		t.Errorf("got %s", s)
	}
	if diff := cmp.Diff([]string{"options", "depth"}, got[3].Keys); diff != "" {
		t.Error(diff)
	}
}

func TestOpenFieldsTakeAnyName(t *testing.T) {
	if got := spec.Check(fields, true, map[string]any{"url": "http://x", "more": 1}); got != nil {
		t.Errorf("got %v", got)
	}
}

// While a pipeline is validated, a template stands for a value of any type, at any depth.
func TestTemplatesFitAnything(t *testing.T) {
	c := compile(t, fields, false)
	values := map[string]any{"url": "{{ u }}", "method": "{{ m }}", "retries": "{{ n }}", "follow": "x{{ f }}", "tags": []any{"{{ t }}"},
		"options": map[string]any{"name": "{{ n }}", "depth": "{% if a %}1{% endif %}"}, "headers": "{{ h }}"}
	if got := c.CheckTemplated(values); got != nil {
		t.Errorf("got %v", got)
	}
	if got := c.Check(values); len(got) != 6 {
		t.Errorf("without templates: %v", got)
	}
}

func TestApply(t *testing.T) {
	c := compile(t, fields, false)
	given := map[string]any{"url": "http://x", "rate": int64(2), "retries": 4.0, "method": nil, "options": map[string]any{"name": "n", "share": 1, "depth": 2.0}}
	before := fmt.Sprint(given)
	got := c.Apply(given)
	want := map[string]any{"url": "http://x", "rate": 2.0, "retries": int64(4), "method": "GET", "timeout": "30s",
		"options": map[string]any{"name": "n", "share": 1.0, "depth": int64(2)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if fmt.Sprint(given) != before {
		t.Errorf("the values given were changed: %v", given)
	}
	if diff := cmp.Diff(map[string]any{"method": "GET", "retries": int64(3), "timeout": "30s"}, c.Apply(nil)); diff != "" {
		t.Errorf("of nothing:\n%s", diff)
	}
	done := c.Apply(got)
	if diff := cmp.Diff(got, done); diff != "" {
		t.Errorf("a second time:\n%s", diff)
	}
}

// A handler that changes its parameters changes no default.
func TestApplyCopiesDefaults(t *testing.T) {
	c := compile(t, []spec.Field{{Name: "list", Type: spec.Array, Default: []any{"a", map[string]any{"b": 1}}}}, false)
	first := c.Apply(nil)["list"].([]any)
	first[0] = "changed"
	first[1].(map[string]any)["b"] = 2
	if diff := cmp.Diff([]any{"a", map[string]any{"b": 1}}, c.Apply(nil)["list"]); diff != "" {
		t.Error(diff)
	}
}

func TestCompileRefusesWrongFields(t *testing.T) {
	for want, fields := range map[string][]spec.Field{
		"has no name":       {{Type: spec.String}},
		"appears twice":     {{Name: "a", Type: spec.String}, {Name: "a", Type: spec.Any}},
		"unknown type":      {{Name: "a", Type: "strin"}},
		"pattern of field":  {{Name: "a", Type: spec.String, Pattern: "("}},
		"default of field":  {{Name: "a", Type: spec.Integer, Default: "x"}},
		"field o.i appears": {{Name: "o", Type: spec.Object, Fields: []spec.Field{{Name: "i", Type: spec.Any}, {Name: "i", Type: spec.Any}}}},
		"field l[] has":     {{Name: "l", Type: spec.Array, Items: &spec.Field{Type: "x"}}},
	} {
		if _, err := spec.Compile(fields, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if got := spec.Check(fields, false, nil); len(got) != 1 {
			t.Errorf("Check: %v", got)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for _, tt := range []struct {
		value any
		want  time.Duration
		bad   bool
	}{
		{1, time.Second, false}, {1.5, 1500 * time.Millisecond, false}, {int64(90), 90 * time.Second, false}, {"90s", 90 * time.Second, false},
		{"1h30m", 90 * time.Minute, false}, {"2d", 48 * time.Hour, false}, {"1d12h", 36 * time.Hour, false}, {0, 0, false},
		{"", 0, true}, {"90", 0, true}, {"-1s", 0, true}, {-1, 0, true}, {"1.5d", 0, true}, {"d", 0, true}, {true, 0, true}, {nil, 0, true}, {1e300, 0, true}, {"99999999d", 0, true},
	} {
		got, err := spec.ParseDuration(tt.value)
		if got != tt.want || (err != nil) != tt.bad {
			t.Errorf("%v: %v, %v", tt.value, got, err)
		}
	}
}

// Values that the schema and the checker disagree on would make editors lie.
func TestJSONSchemaAgreesWithCheck(t *testing.T) {
	raw, err := json.Marshal(spec.JSONSchema(fields, false))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("fields.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("fields.json")
	if err != nil {
		t.Fatal(err)
	}
	c := compile(t, fields, false)
	base := map[string]any{"url": "https://example.org"}
	for _, change := range []map[string]any{
		{}, {"method": "POST"}, {"method": "post"}, {"url": "ftp://x"}, {"retries": 5.0}, {"retries": 6.0}, {"retries": 2.5}, {"retries": "2"},
		{"rate": 0.5}, {"rate": 0.25}, {"follow": true}, {"follow": "true"}, {"timeout": "1h"}, {"timeout": 3601.0}, {"timeout": true},
		{"after": "2026-01-31T12:00:00Z"}, {"after": "soon"}, {"cluster": ""}, {"cluster": "x"}, {"body": []any{1.0}}, {"tags": []any{"ab"}},
		{"tags": []any{"a"}}, {"tags": []any{"ab", "ab", "ab", "ab"}}, {"options": map[string]any{"name": "x"}}, {"options": map[string]any{}},
		{"options": map[string]any{"name": "x", "more": 1.0}}, {"headers": map[string]any{"x": 1.0}}, {"headers": 1.0}, {"unknown": 1.0},
	} {
		values := maps.Clone(base)
		maps.Copy(values, change)
		bySchema, byCheck := schema.Validate(values), c.Check(values)
		if (bySchema == nil) != (byCheck == nil) {
			t.Errorf("%v: the schema says %v, Check %v", change, bySchema, byCheck)
		}
	}
}

func TestClosest(t *testing.T) {
	names := []string{"depends_on", "on_failure", "retry", "params", "util.http", "util.log", "timeout_seconds", "id"}
	for wrote, want := range map[string]string{
		"dependson": "depends_on", "depend_on": "depends_on", "dependsOn": "depends_on", "depends-on": "depends_on", "depends": "depends_on", "rety": "retry",
		"reytr": "retry", "parms": "params", "http": "util.http", "util.htpp": "util.http", "timeout": "timeout_seconds", "ID": "id", "if": "id",
		"x": "", "zzzzzzzz": "", "": "", "completely_different": "", strings.Repeat("x", 1000): "",
	} {
		if got := spec.Closest(wrote, names); got != want {
			t.Errorf("%q: got %q, want %q", wrote, got, want)
		}
	}
	if got := spec.Closest("abc", nil); got != "" {
		t.Errorf("among nothing: %q", got)
	}
}

func FuzzClosest(f *testing.F) {
	f.Add("retry", "rety,params")
	f.Add("", ",,")
	f.Fuzz(func(t *testing.T, name, among string) {
		names := strings.Split(among, ",")
		got := spec.Closest(name, names)
		if got != "" && !strings.Contains(","+among+",", ","+got+",") {
			t.Errorf("%q is not among %q", got, among)
		}
	})
}

// The worker does this once per attempt.
func BenchmarkCheckApply(b *testing.B) {
	c := compile(b, fields, false)
	values := map[string]any{"url": "https://example.org", "method": "GET", "retries": int64(3), "timeout": "30s", "tags": []any{"ab", "cd"}}
	b.ReportAllocs()
	for b.Loop() {
		if c.Check(values) != nil {
			b.Fatal("a mismatch")
		}
		if len(c.Apply(values)) != len(values) {
			b.Fatal("applied something")
		}
	}
}
