package definition_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/tooltest"
)

func parse(t *testing.T, src string, opts definition.ParseOptions) *definition.Definition {
	t.Helper()
	d, problems := definition.Parse([]byte(src), opts)
	if err := problems.Err(); err != nil {
		t.Fatalf("%v\n%s", err, src)
	}
	return d
}

// Hostile documents are refused at once.
func TestHostileDocuments(t *testing.T) {
	bomb := "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 12; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), i-1)
	}
	merges := "base: &base {" + strings.Repeat("k%d: 1, ", 3000) + "z: 1}\nlist:\n"
	for i := range 3000 {
		merges = strings.Replace(merges, "k%d", fmt.Sprintf("k%d", i), 1)
	}
	merges += strings.Repeat("- {<<: *base}\n", 3000)
	text := "text: &t " + strings.Repeat("x", 100_000) + "\nlist: [" + strings.Repeat("*t, ", 10_000) + "]\n"
	for name, c := range map[string]struct{ src, want string }{
		"alias bomb":        {bomb, "aliases and variables add more than"},
		"merge bomb":        {merges, "merge keys (<<) bring in more than"},
		"repeated text":     {text, "aliases and variables add more than"},
		"deep flow":         {strings.Repeat("[", 1_000_000), "at most 100 levels"},
		"deep block":        {strings.Repeat("- ", 500_000), "at most 100 levels"},
		"deep JSON":         {strings.Repeat("[", 5_000) + strings.Repeat("]", 5_000), "nests deeper than 100"},
		"deep JSON objects": {strings.Repeat(`{"a":`, 5_000) + "1" + strings.Repeat("}", 5_000), "nests deeper than 100"},
		"deep by alias":     {deepByAlias(), "nests deeper than 100"},
		"huge":              {"name: " + strings.Repeat("x", 40<<20), "the limit is 33554432"},
		"many values":       {"name: x\nsteps:\n" + strings.Repeat("- 1\n", 3<<20), "more than 2097152 values"},
		"many JSON values":  {"[1" + strings.Repeat(",1", 3<<20) + "]", "more than 2097152 values"},
		"many compact ones": {strings.Repeat(strings.Repeat("- ", 90)+"1\n", 50_000), "more than 2097152 values"},
		"variables":         {"name: x\nsteps: ['" + strings.Repeat("${BIG}", 1000) + "']", "aliases and variables add more than"},
	} {
		t.Run(name, func(t *testing.T) {
			big := strings.Repeat("b", 10_000)
			start := time.Now()
			_, problems := definition.Parse([]byte(c.src), definition.ParseOptions{Env: func(string) (string, bool) { return big, true }})
			took := time.Since(start)
			if !strings.Contains(problems.Error(), c.want) {
				t.Errorf("got %.300v, want %q", problems, c.want)
			}
			if took > 20*time.Second { // 100 ms on a quiet machine; a bomb would take minutes
				t.Errorf("took %v", took)
			}
			t.Logf("refused in %v", took)
		})
	}
}

// deepByAlias nests 60 levels in an anchor and uses it below 60 more.
func deepByAlias() string {
	return "a: &a " + strings.Repeat("[", 60) + strings.Repeat("]", 60) + "\nb: " + strings.Repeat("[", 60) + "*a" + strings.Repeat("]", 60) + "\n"
}

// The same document in every encoding and syntax gives the same definition.
func TestSyntaxes(t *testing.T) {
	yaml := "name: same\nsteps:\n  - id: a\n    action: util.log\n    params: {message: \"ä → {{ params.x }}\", n: [1, 2.5, true, null]}\n"
	want := parse(t, yaml, definition.ParseOptions{})
	for name, src := range map[string]string{
		"BOM":                   "\ufeff" + yaml,
		"CRLF":                  strings.ReplaceAll(yaml, "\n", "\r\n"),
		"document markers":      "%YAML 1.2\n---\n" + yaml + "...\n",
		"JSON":                  `{"name":"same","steps":[{"id":"a","action":"util.log","params":{"message":"ä → {{ params.x }}","n":[1,2.5,true,null]}}]}`,
		"JSON with tabs":        "{\n\t\"name\": \"same\",\n\t\"steps\": [\n\t\t{\"id\": \"a\", \"action\": \"util.log\", \"params\": {\"message\": \"\\u00e4 \\u2192 {{ params.x }}\", \"n\": [1, 2.5, true, null]}}]}\n",
		"JSON in YAML":          "name: same\nsteps: [{\"id\": \"a\", \"action\": \"util.log\", \"params\": {\"message\": \"ä → {{ params.x }}\", \"n\": [1, 2.5, true, null]}}]\n",
		"wrapped":               "workflow:\n" + "  " + strings.ReplaceAll(strings.TrimSpace(yaml), "\n", "\n  "),
		"flow YAML with remark": "{name: same, # here\n steps: [{id: a, action: util.log, params: {message: 'ä → {{ params.x }}', n: [1, 2.5, true, null]}}]}",
	} {
		d := parse(t, src, definition.ParseOptions{})
		if diff := cmp.Diff(want, d, content); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestPositions(t *testing.T) {
	src := `name: places
steps:
  - id: a
    action: util.noop
    depends_on: [b, "c"]
    params:
      plain: text
      "quo/ted~": "text"
      block: |
        {{ one }}
      list:
        - {deep: 'x'}
`
	d := parse(t, src, definition.ParseOptions{})
	want := map[string]definition.Pos{
		"id": {Line: 3, Column: 9}, "action": {Line: 4, Column: 13}, "depends_on": {Line: 5, Column: 5}, "depends_on/0": {Line: 5, Column: 18}, "depends_on/1": {Line: 5, Column: 22}, "params": {Line: 6, Column: 5},
		"params/plain": {Line: 7, Column: 14}, "params/quo~1ted~0": {Line: 8, Column: 20}, "params/block": {Line: 10, Column: 9}, "params/list": {Line: 11, Column: 7},
		"params/list/0": {Line: 12, Column: 11}, "params/list/0/deep": {Line: 12, Column: 19},
	}
	if diff := cmp.Diff(want, d.Steps[0].At); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if d.Steps[0].Pos != (definition.Pos{Line: 3, Column: 5}) {
		t.Errorf("step at %v", d.Steps[0].Pos)
	}
}

func TestLenientTurnsUnknownKeysIntoWarnings(t *testing.T) {
	src := "name: x\nfoo: 1\nsteps: [{id: a, action: b, bar: 2}]"
	d, problems := definition.Parse([]byte(src), definition.ParseOptions{Lenient: true})
	if problems.Err() != nil || len(problems) != 2 || d.Steps[0].Action != "b" {
		t.Errorf("got %v", problems)
	}
}

func TestVariables(t *testing.T) {
	src := "name: ${A}-${B:-none}\nsteps: [{id: a, action: b}]"
	lookup := func(name string) (string, bool) { return "env", name == "A" }
	for _, c := range []struct {
		want string
		opts definition.ParseOptions
	}{
		{"${A}-${B:-none}", definition.ParseOptions{}},
		{"env-none", definition.ParseOptions{Env: lookup}},
		{"matrix-none", definition.ParseOptions{Env: lookup, Vars: map[string]string{"A": "matrix"}}},
		{"matrix-b", definition.ParseOptions{Vars: map[string]string{"A": "matrix", "B": "b"}}},
	} {
		if d := parse(t, src, c.opts); d.Name != c.want {
			t.Errorf("got %q, want %q", d.Name, c.want)
		}
	}
}

// No value of a variable can change the structure of the document.
func TestVariablesAreData(t *testing.T) {
	for _, value := range []string{"a: b", "[x", "\n- y", "*x", "&x", "# x", "'", `"`, "!!int 3", "${A}", "$${A}"} {
		d := parse(t, "name: x\nsteps: [{id: a, action: b, params: {v: '-${A}'}}]", definition.ParseOptions{Vars: map[string]string{"A": value}})
		if got := d.Steps[0].Params["v"]; got != "-"+value {
			t.Errorf("got %q, want %q", got, "-"+value)
		}
	}
}

func TestProblemsAreBounded(t *testing.T) {
	_, problems := definition.Parse([]byte("name: x\nsteps:\n"+strings.Repeat("  - {}\n", 5000)), definition.ParseOptions{})
	if len(problems) != 1001 || !strings.Contains(problems[1000].Message, "more problems are left out") {
		t.Errorf("%d problems, the last: %v", len(problems), problems[len(problems)-1])
	}
}

// One long line and thousands of unknown keys take CPU time in proportion to their size: four times as much is far from sixteen times as slow.
func TestUnusualShapes(t *testing.T) {
	shapes := map[string]func(n int) string{
		"one line": func(n int) string {
			return "{name: x, steps: [" + strings.Repeat("{id: a, action: b, params: {v: '{{ params.x }}'}}, ", n) + "]}"
		},
		"unknown keys": func(n int) string {
			var b strings.Builder
			b.WriteString("name: x\nsteps: [{id: a, action: b}]\n")
			for i := range 7 * n {
				fmt.Fprintf(&b, "key%d: 1\n", i)
			}
			return b.String()
		},
	}
	for name, shape := range shapes {
		took := func(n int) time.Duration {
			src := shape(n)
			start := tooltest.CPUTime()
			if d, _ := definition.Parse([]byte(src), definition.ParseOptions{}); d == nil {
				t.Fatalf("%s: nothing was read", name)
			}
			return tooltest.CPUTime() - start
		}
		part, whole := took(7_500), took(30_000)
		t.Logf("%s: %v, a quarter of it %v", name, whole, part)
		if whole > 10*part+2*time.Second { // about a second; quadratic it was many minutes
			t.Errorf("%s: took %v, a quarter of it %v", name, whole, part)
		}
	}
}

// Parsing is linear in the size of the document.
func TestLargeDocument(t *testing.T) {
	const steps = 20_000
	var b strings.Builder
	b.WriteString("name: large\nsteps:\n")
	for i := range steps {
		fmt.Fprintf(&b, "  - id: s%d\n    action: util.noop\n    params: {a: \"{{ params.x }}\"}\n", i)
	}
	start := time.Now()
	d := parse(t, b.String(), definition.ParseOptions{})
	t.Logf("%d steps in %v", steps, time.Since(start))
	if len(d.Steps) != steps {
		t.Errorf("%d steps", len(d.Steps))
	}
}

// A pause of zero that is written is meant: it is not the default of a minute.
func TestRetryZero(t *testing.T) {
	d, problems := definition.Parse([]byte("name: x\nsteps:\n- {id: a, action: util.noop, retry: {backoff_seconds: 0, jitter: 0.0}}\n- {id: b, action: util.noop, retry: {backoff_seconds: null}}"), definition.ParseOptions{})
	if problems != nil {
		t.Fatal(problems)
	}
	if r := d.Steps[0].Retry; r.BackoffSeconds != 1e-6 || r.Jitter != 1e-6 {
		t.Errorf("read as %+v", r)
	}
	if r := d.Steps[1].Retry; r.BackoffSeconds != 0 || r.Jitter != 0 {
		t.Errorf("read as %+v", r)
	}
}
