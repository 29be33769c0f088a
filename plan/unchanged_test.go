package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const prefixText = `name: lesson
settings: {sequential: true}
parameters: [{name: tone, default: calm}]
steps:
  - {id: transcribe, action: work, source: media, params: {file: "{{ source.path }}"}}
  - {id: outline, action: work, settings: {model: small, prompt: "Of {{ lesson.name }}"}, params: {model: "{{ settings.model }}", text: "{{ source }}"}}
  - {id: loop, action: work, for_each: "{{ source.list }}", params: {one: "{{ item }}", tone: "{{ params.tone }}", of: "{{ project.tags }}"}}
  - {id: quiz, action: work, source: transcribe, condition: "lesson.tag == 'quiz'", params: {text: "{{ source }}"}}
`

// TestChanges: of two versions, each step says what is different at its position, and the beginning ends before the first that differs.
func TestChanges(t *testing.T) {
	old := planOf(t, prefixText)
	for _, c := range []struct {
		old, new string
		n        int
		why      []string
	}{
		{"name: lesson", "name: other", 4, nil},
		{"id: outline, action", "id: plan, queue: gpu, action", 4, nil}, // nobody reads it by its id
		{"model: small", "model: large", 1, []string{"settings changed", "what it reads changed", "it is after step outline"}},
		{`text: "{{ source }}"}}
  - {id: loop`, `text: "{{ source | upper }}"}}
  - {id: loop`, 1, []string{"params changed", "what it reads changed", "it is after step outline"}},
		{"action: work, source: transcribe", "action: work, source: outline", 3, []string{"source changed"}},
		{"id: transcribe, action: work", "id: transcribe, action: flaky", 0, []string{"its action changed", "what it reads changed", "what it reads changed", "what it reads changed"}},
		{"lesson.tag ==", "lesson.tag !=", 3, []string{"its condition changed"}},
		{"{{ source.list }}", "{{ source.all }}", 2, []string{"for_each changed", "it is after step loop"}},
		{"one: \"{{ item }}\"", "two: \"{{ item }}\"", 2, []string{"the steps inside it changed", "it is after step loop"}},
		{"id: quiz, action: work", "id: quiz, timeout_seconds: 7, action: work", 3, []string{"its retry or timeout changed"}},
		{"  - {id: outline", "  - {id: new, action: work, settings: {a: 1}}\n  - {id: outline", 1, []string{"params changed", "its action changed", "its action changed", "the step is new"}},
	} {
		text := strings.Replace(prefixText, c.old, c.new, 1)
		if text == prefixText {
			t.Fatalf("%q is not there", c.old)
		}
		p := planOf(t, text)
		why := p.Changes(old)
		if n := p.Unchanged(old, why); n != c.n || len(why) != len(p.Graph.Steps) {
			t.Errorf("%q: %d steps are unchanged, want %d: %q", c.new, n, c.n, why)
		} else if got := why[n:]; !slices.Equal(got, c.why) && len(got)+len(c.why) > 0 {
			t.Errorf("%q: %q, want %q", c.new, got, c.why)
		}
	}
	if p := planOf(t, strings.SplitAfter(prefixText, "text: \"{{ source }}\"}}\n")[0]); p.Unchanged(old, p.Changes(old)) != 2 {
		t.Error("a version with fewer steps is not the beginning of one with more")
	}
}

// TestSeen: the names of parameters, project and lesson that a step's templates read, in its settings and inside it too.
func TestSeen(t *testing.T) {
	p := planOf(t, prefixText)
	for i, want := range []string{"[]", "[[lesson name]]", "[[params tone] [project tags]]", "[[lesson tag]]"} {
		if got := fmt.Sprint(p.Seen(int32(i))); got != want {
			t.Errorf("step %d sees %s, want %s", i+1, got, want)
		}
	}
	p = planOf(t, lessonText)
	i, _ := p.Graph.Index("sub")
	if got := p.Seen(i); len(got) != 0 {
		t.Errorf("the parameters of a sub-pipeline are taken for those of the pipeline: %v", got)
	}
}

// TestUnchangedStream: the steps of a stream are taken over together, or none of them, also where only the other version connects them.
func TestUnchangedStream(t *testing.T) {
	plain := &Graph{Steps: []Step{{ID: "first"}, {ID: "in"}, {ID: "out"}, {ID: "last"}}}
	stream := &Graph{Steps: slices.Clone(plain.Steps)}
	stream.Steps[1].Stream = &Stream{Members: []Member{{Step: 1}, {Step: 2}}}
	stream.Steps[2].Stream = &Stream{Lead: 2}
	for _, c := range []struct {
		now, then *Graph
		why, want []string
	}{
		{stream, plain, []string{"", "", "", ""}, []string{}},
		{stream, plain, []string{"", "", "", "x"}, []string{"x"}},
		{stream, plain, []string{"", "", "x", ""}, []string{"its stream has steps that run again", "x", "it is after step in"}},
		{plain, stream, []string{"", "", "x", ""}, []string{"its stream has steps that run again", "x", "it is after step in"}},
		{plain, plain, []string{"", "", "x", ""}, []string{"x", "it is after step out"}},
	} {
		n := (&Plan{Graph: c.now}).Unchanged(&Plan{Graph: c.then}, c.why)
		if got := c.why[n:]; !slices.Equal(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
