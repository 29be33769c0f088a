package plan

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// catalog has any action that begins with a letter.
type catalog struct{}

func (catalog) Spec(name string) (*spec.Spec, bool) {
	s := &spec.Spec{Name: name, OpenParams: true}
	switch name {
	case "none":
		return nil, false
	case "scan":
		s.Spawns = []string{"copy"}
	case "copy":
		s.Spawns, s.DependsOn = []string{"extract"}, []string{"scan", "elsewhere"}
	case "once":
		s.NotIdempotent, s.Timeout = true, time.Hour
	case "flaky":
		s.Retry = &stepwell.Retry{MaxAttempts: 2, Backoff: time.Second}
	case "raw":
		s.Params = []spec.Field{{Name: "condition", Raw: true, Bare: true, Type: spec.Any}, {Name: "branches", Type: spec.Array, Items: &spec.Field{Fields: []spec.Field{{Name: "if", Raw: true}}}}}
	}
	return s, true
}

// TestCompile compiles the documents in testdata/*.txt and compares the results: ---- ends a document, --- separates
// it from the pipelines that it runs.
func TestCompile(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no documents", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := golden(t, string(src))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(src) {
				t.Errorf("%s differs:\n%s\n(rewrite with -update)", file, got)
			}
		})
	}
}

// golden goes through paragraphs: comments, documents, and the answers that are replaced.
func golden(t *testing.T, src string) string {
	var out, doc strings.Builder
	answer := false
	for line := range strings.Lines(src) {
		switch {
		case answer:
			if answer = strings.TrimSpace(line) != ""; !answer {
				out.WriteString("\n")
			}
		case strings.TrimSpace(line) == "----":
			out.WriteString(line + describe(t, doc.String()))
			doc.Reset()
			answer = true
		default:
			out.WriteString(line)
			doc.WriteString(line)
		}
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

func describe(t *testing.T, src string) string {
	var first *definition.Definition
	others := map[string]*definition.Definition{}
	for _, text := range strings.Split(src, "\n---\n") {
		d, problems := definition.Parse([]byte(text), definition.ParseOptions{})
		if err := problems.Err(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if first == nil {
			first = d
		} else {
			others[d.Name] = d
		}
	}
	first.Pipelines = others
	p, err := Compile(first, catalog{})
	if err != nil {
		return fmt.Sprintf("%s: %v\n", stepwell.CodeOf(err), err)
	}
	text := text(p)
	if again := asRecorded(t, first); again != text {
		t.Errorf("the snapshot, compiled with actions that have no policies:\n%s\nwant:\n%s", again, text)
	}
	return text
}

// bare is the catalog at a time when no action had policies any more.
type bare struct{}

func (bare) Spec(name string) (*spec.Spec, bool) {
	s, ok := catalog{}.Spec(name)
	if ok {
		s.Retry, s.Timeout, s.NotIdempotent, s.Spawns, s.DependsOn = nil, 0, false, nil, nil
	}
	return s, ok
}

// asRecorded goes through the snapshot of a definition: the policies of its actions are in it.
func asRecorded(t *testing.T, d *definition.Definition) string {
	body, err := definition.Encode(definition.Expand(d, catalog{}))
	if err != nil {
		t.Fatal(err)
	}
	if d, err = definition.Decode(body); err != nil {
		t.Fatal(err)
	}
	p, err := Compile(d, bare{})
	if err != nil {
		t.Fatal(err)
	}
	return text(p)
}

func text(p *Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "levels %s\n", levels(p.Graph))
	if p.Timeout > 0 || p.ReadAll || p.Graph.MaxParallel > 0 {
		fmt.Fprintf(&b, "timeout %v, reads all %v, max parallel %d\n", p.Timeout, p.ReadAll, p.Graph.MaxParallel)
	}
	if p.SLA != (SLA{}) || p.Priority != 0 || p.Weighted {
		fmt.Fprintf(&b, "expected %v, at most %v, priority %d, weighted %v, weight %d\n", p.SLA.Expected, p.SLA.Maximum, p.Priority, p.Weighted, p.Graph.Weight)
	}
	if c := p.Concurrency; c != nil {
		key, err := c.Key(map[string]any{"cluster": "c1", "n": int64(7), "nothing": ""})
		fmt.Fprintf(&b, "concurrency %d, else %s, key %q %v\n", c.Limit, c.OnConflict, key, err)
	}
	graph(&b, p.Graph, "")
	if p.OnFailure != nil {
		fmt.Fprintf(&b, "on_failure (fail_fast %s)\n", p.OnFailure.FailFast)
		graph(&b, p.OnFailure, "  ")
	}
	if p.Finally != nil {
		fmt.Fprintf(&b, "finally (fail_fast %s)\n", p.Finally.FailFast)
		graph(&b, p.Finally, "  ")
	}
	if p.Outputs != nil {
		fmt.Fprintf(&b, "outputs %v read %v\n", p.Outputs.Names, reads(p.Outputs.Reads))
	}
	return b.String()
}

func levels(g *Graph) string {
	var all []string
	for _, l := range g.Levels() {
		var ids []string
		for _, i := range l {
			ids = append(ids, g.Steps[i].ID)
		}
		all = append(all, strings.Join(ids, " "))
	}
	return strings.Join(all, " | ")
}

// reads shows what templates read: {scopes outwards, step}, and which of it as source.
func reads(list []Read) string {
	var all []string
	for _, r := range list {
		source := ""
		if r.Source {
			source = " source"
		}
		all = append(all, fmt.Sprintf("{%d %d%s}", r.Up, r.Step, source))
	}
	return fmt.Sprint(all)
}

func graph(b *strings.Builder, g *Graph, in string) {
	for _, s := range g.Spawners {
		fmt.Fprintf(b, "%sname %s from %v exact %v\n", in, s.Name, s.Steps, s.Exact)
	}
	for i := range g.Steps {
		s := &g.Steps[i]
		fmt.Fprintf(b, "%s%d %s", in, i, s.ID)
		for _, part := range []struct {
			name string
			show any
			when bool
		}{{"action", s.Action, s.Action != ""}, {"deps", s.Deps, len(s.Deps) > 0}, {"names", s.Names, len(s.Names) > 0}, {"children", s.Children, len(s.Children) > 0},
			{"reads", reads(s.Reads), len(s.Reads) > 0}, {"kept", "", s.Keep}, {"scoped", "", s.Scoped}, {"secrets", "", s.Secrets}, {"conditional", "", s.Condition != nil}} {
			if part.when {
				fmt.Fprintf(b, " %s", strings.TrimSpace(fmt.Sprint(part.name, " ", part.show)))
			}
		}
		b.WriteString(policyText(s.Policy))
		b.WriteString("\n")
		if f := s.ForEach; f != nil {
			fmt.Fprintf(b, "%s  for_each as %s, at once %d, failures %d or %v, collected %v\n", in, f.As, f.MaxConcurrent, f.MaxFailures, f.Share, f.Collect)
		}
		if s.Body != nil {
			fmt.Fprintf(b, "%s  inside %s\n", in, strings.TrimSpace(s.Body.Pipeline))
			graph(b, s.Body.Graph, in+"    ")
			if s.Body.Finally != nil {
				fmt.Fprintf(b, "%s  finally\n", in)
				graph(b, s.Body.Finally, in+"    ")
			}
			if s.Body.Outputs != nil {
				fmt.Fprintf(b, "%s  outputs %v read %v\n", in, s.Body.Outputs.Names, reads(s.Body.Outputs.Reads))
			}
		}
	}
}

// policyText prints differences from the defaults.
func policyText(p *Policy) string {
	var b strings.Builder
	if p.Retry.MaxAttempts > 1 {
		fmt.Fprintf(&b, ", %d attempts after %v ×%v up to %v", p.Retry.MaxAttempts, p.Retry.Backoff, p.Retry.Multiplier, p.Retry.MaxBackoff)
	}
	if p.Timeout != DefaultTimeout && p.Timeout > 0 {
		fmt.Fprintf(&b, ", timeout %v", p.Timeout)
	}
	for name, rule := range ruleNames {
		if name != "" && p.Rule == rule && rule != AllSuccess {
			b.WriteString(", " + name)
		}
	}
	if p.Continue {
		b.WriteString(", continue")
	}
	if p.NotIdempotent {
		b.WriteString(", not idempotent")
	}
	if p.Priority != 0 {
		fmt.Fprintf(&b, ", priority %d", p.Priority)
	}
	if p.Queue != "" || p.Weight != 0 {
		fmt.Fprintf(&b, ", queue %q, weight %d", p.Queue, p.Weight)
	}
	return b.String()
}

// TestRender: templates keep their type, static values are copied.
func TestRender(t *testing.T) {
	doc := map[string]any{"n": "{{ params.n }}", "text": "n is {{ params.n }}", "list": []any{"{{ params.list }}", int64(1)}, "static": map[string]any{"a": []any{int64(1)}}}
	v, err := CompileValue(doc)
	if err != nil || v.Static() {
		t.Fatal(err, v.Static())
	}
	scope := expr.Vars{"params": map[string]any{"n": int64(1<<53 + 1), "list": []any{"x"}}}
	for range 2 { // changing a result must not change the next one
		got, err := v.Render(scope, expr.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := expr.Marshal(got)
		if want := `{"list":[["x"],1],"n":9007199254740993,"static":{"a":[1]},"text":"n is 9007199254740993"}`; string(raw) != want {
			t.Errorf("%s", raw)
		}
		got.(map[string]any)["static"].(map[string]any)["a"].([]any)[0] = "changed"
	}
	if _, err = v.Render(expr.Vars{}, expr.Limits{}); err == nil || !strings.HasPrefix(err.Error(), "list: [0]: ") {
		t.Errorf("%v does not say where", err)
	}
}

// TestCompileErrors names the place of a template that is none.
func TestCompileErrors(t *testing.T) {
	_, err := CompileValue(map[string]any{"a": []any{"ok", map[string]any{"b": "{{ 1 + }}"}}})
	if err == nil || !strings.HasPrefix(err.Error(), "a[1].b: ") {
		t.Errorf("%v", err)
	}
}

// TestLargePlan: 100,000 steps compile quickly into little memory, as a fan-out, as a chain, and when
// every step reads another or all of them.
func TestLargePlan(t *testing.T) {
	const n = 100_000
	for _, c := range []struct {
		name  string
		step  func(i int) definition.Step
		limit float64 // bytes per step
	}{
		{"plain", func(i int) definition.Step { return definition.Step{Action: "work"} }, 260},
		{"static params", func(i int) definition.Step {
			return definition.Step{Action: "work", Params: map[string]any{"x": int64(i)}}
		}, 320},
		{"chain", func(i int) definition.Step {
			return definition.Step{Action: "work", DependsOn: before(i)}
		}, 280},
		{"reading", func(i int) definition.Step {
			return definition.Step{Action: "work", DependsOn: before(i), Params: map[string]any{"x": "{{ steps." + id(max(i-1, 0)) + ".status }}"}}
		}, 2000},
	} {
		d := &definition.Definition{Name: "large", Steps: make([]definition.Step, n)}
		for i := range d.Steps {
			d.Steps[i] = c.step(i)
			d.Steps[i].ID = id(i)
		}
		was, start := heap(), time.Now()
		p, err := Compile(d, catalog{})
		took := time.Since(start)
		per := float64(heap()-was) / n
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %v, %.0f bytes per step", c.name, took.Round(time.Millisecond), per)
		if limit := time.Minute; took > limit || per > c.limit { // the time distinguishes linear from quadratic, on any machine
			t.Errorf("%s: %v, %.0f bytes per step, the limits are %v and %.0f", c.name, took, per, limit, c.limit)
		}
		runtime.KeepAlive(p)
		runtime.KeepAlive(d)
	}
}

func id(i int) string { return fmt.Sprintf("s%d", i) }

func before(i int) []string {
	if i == 0 {
		return nil
	}
	return []string{id(i - 1)}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
