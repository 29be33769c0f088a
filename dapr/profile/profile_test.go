package profile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/builtin"
	"github.com/stepwell/stepwell/dapr/profile"
	"github.com/stepwell/stepwell/definition"
)

// find returns what is wrong with a pipeline, one line each.
func find(t *testing.T, text string, others ...string) string {
	t.Helper()
	actions := &action.Registry{}
	if err := builtin.Register(actions, builtin.Options{}); err != nil {
		t.Fatal(err)
	}
	d, problems := definition.Parse([]byte(text), definition.ParseOptions{})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	d.Pipelines = map[string]*definition.Definition{}
	for _, other := range others {
		sub, problems := definition.Parse([]byte(other), definition.ParseOptions{})
		if err := problems.Err(); err != nil {
			t.Fatal(err)
		}
		d.Pipelines[sub.Name] = sub
	}
	if err := definition.Check(d, actions, "").Err(); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, p := range profile.Find(definition.Expand(d, actions), actions, "f") {
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

// TestLimits: what is within them is accepted, and what is beyond is refused with both numbers.
func TestLimits(t *testing.T) {
	steps := func(n int) string {
		var b strings.Builder
		b.WriteString("name: p\nsteps:\n")
		for i := range n {
			fmt.Fprintf(&b, "  - {id: s%d, action: util.noop}\n", i)
		}
		return b.String()
	}
	if got := find(t, steps(profile.MaxSteps)); got != "" {
		t.Error(got)
	}
	if got := find(t, steps(profile.MaxSteps+1)); !strings.Contains(got, "1001 steps") || !strings.Contains(got, "limit is 1000") {
		t.Error(got)
	}
	large := "name: p\nsteps:\n  - {id: a, action: util.log, params: {message: " + strings.Repeat("x", 257<<10) + "}}\n"
	if got := find(t, large); !strings.Contains(got, "258 KiB") || !strings.Contains(got, "limit is 256 KiB") {
		t.Error(got)
	}
}

// TestInside: what is missing is found inside groups, loops and the pipelines that steps run.
func TestInside(t *testing.T) {
	const secret = `{id: leaks, action: util.log, params: {message: "{{ secrets.x }}"}}`
	for name, x := range map[string][]string{
		"step":             {"name: p\nsteps:\n  - " + secret + "\n"},
		"group":            {"name: p\nsteps:\n  - {id: g, steps: [" + secret + "]}\n"},
		"loop":             {"name: p\nsteps:\n  - {id: leaks, for_each: {items: 3}, action: util.log, params: {message: \"{{ secrets.x }}\"}}\n"},
		"loop of a group":  {"name: p\nsteps:\n  - {id: g, for_each: {items: 3}, steps: [" + secret + "]}\n"},
		"finally":          {"name: p\nsteps: [{id: a, action: util.noop}]\nfinally: [" + secret + "]\n"},
		"pipeline":         {"name: p\nsteps: [{id: a, pipeline: sub}]\n", "name: sub\nsteps: [" + secret + "]\n"},
		"loop of pipeline": {"name: p\nsteps: [{id: a, for_each: {items: 2}, pipeline: sub}]\n", "name: sub\nsteps: [{id: b, action: util.noop}]\nfinally: [" + secret + "]\n"},
		"inner pipeline":   {"name: p\nsteps: [{id: a, pipeline: sub}]\n", "name: sub\nsteps: [{id: b, pipeline: deep}]\n", "name: deep\nsteps: [" + secret + "]\n"},
	} {
		if got := find(t, x[0], x[1:]...); strings.Count(got, "the step leaks reads secrets") != 1 {
			t.Errorf("%s: %q", name, got)
		}
	}
}
