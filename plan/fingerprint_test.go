package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/definition"
)

// planOf compiles a document, and those of the pipelines that it runs, behind ---.
func planOf(t *testing.T, text string) *Plan {
	t.Helper()
	var first *definition.Definition
	for part := range strings.SplitSeq(text, "\n---\n") {
		d, problems := definition.Parse([]byte(part), definition.ParseOptions{})
		if err := problems.Err(); err != nil {
			t.Fatalf("%v\n%s", err, part)
		}
		if first == nil {
			first, d.Pipelines = d, map[string]*definition.Definition{}
		} else {
			first.Pipelines[d.Name] = d
		}
	}
	p, err := Compile(first, catalog{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const lessonText = `name: lesson
settings: {sequential: true}
steps:
  - {id: transcribe, action: work, source: media, params: {file: "{{ source.path }}"}}
  - {id: outline, action: work, settings: {model: small, prompt: "Of {{ lesson.name }}"}, params: {model: "{{ settings.model }}", text: "{{ source }}"}}
  - {id: each, action: work, for_each: "{{ source.list }}", params: {one: "{{ item }}", of: "{{ steps.transcribe.outputs.text }}"}}
  - {id: group, steps: [{id: in, action: work, params: {x: "{{ source }}"}}, {id: next, action: work, params: {x: "{{ steps.in.outputs.x }}"}}]}
  - {id: sub, pipeline: inner, params: {n: "{{ source.next.x }}"}}
  - {id: all, action: work, params: {x: "{{ steps | length }}"}}
---
name: inner
parameters: [{name: n, default: 1}]
steps:
  - {id: deep, action: work, params: {n: "{{ params.n }}"}}
outputs: {n: "{{ steps.deep.outputs.n }}"}
finally:
  - {id: tidy, action: work, params: {n: "{{ steps.deep.outputs.n }}"}}
`

// TestFingerprint: a change of what a step does changes its fingerprint and those of the steps that read it, and no other;
// where, when and under which name it runs counts for nothing.
func TestFingerprint(t *testing.T) {
	steps := []string{"transcribe", "outline", "each", "group", "sub"}
	of := func(text string) (all []string) {
		p := planOf(t, text)
		for _, id := range steps {
			all = append(all, p.Fingerprint(id))
		}
		return all
	}
	base := of(lessonText)
	for i, f := range base {
		if len(f) != 64 {
			t.Fatalf("%s: %q", steps[i], f)
		}
	}
	if p := planOf(t, lessonText); p.Fingerprint("all") != "" || p.Fingerprint("nobody") != "" || p.Fingerprint("in") != "" {
		t.Error("a step that reads all steps, one that is not there, and one inside have fingerprints")
	}
	for _, c := range []struct{ old, new, changed string }{
		{"name: lesson", "name: other", ""},
		{"id: transcribe, action: work", "id: transcribe, name: T, queue: gpu, priority: 3, weight: 2, log_level: debug, action: work", ""},
		{"settings: {sequential: true}", "settings: {sequential: true, max_parallel_steps: 1}", ""},
		{`"{{ source.path }}"`, `"{{ source.url }}"`, "transcribe outline each group sub"},
		{"action: work, source: media", "action: flaky, source: media", "transcribe outline each group sub"},
		{"model: small", "model: large", "outline each group sub"},
		{"Of {{ lesson.name }}", "Of {{ lesson.tag }}", "outline each group sub"},
		{"id: outline, action: work", "id: outline, timeout_seconds: 7, action: work", "outline each group sub"},
		{"id: outline, action: work", "id: outline, condition: source.ok, action: work", "outline each group sub"},
		{"id: outline, action: work", "id: outline, retry: {max_attempts: 7}, action: work", "outline each group sub"},
		{`for_each: "{{ source.list }}"`, `for_each: "{{ source.all }}"`, "each group sub"},
		{"id: each, action: work,", "id: each, action: work, source: transcribe,", "each group sub"},
		{"{x: \"{{ steps.in.outputs.x }}\"}", "{x: 1}", "group sub"},
		{"id: in,", "id: im,", ""}, // replaced below, with its reference
		{"default: 1", "default: 2", "sub"},
		{`{id: deep, action: work, params: {n: "{{ params.n }}"}}`, `{id: deep, action: work, params: {n: 1}}`, "sub"},
		{`outputs: {n: "{{ steps.deep.outputs.n }}"}`, "outputs: {n: 1}", "sub"},
		{"id: tidy, action: work", "id: tidy, action: flaky", "sub"},
	} {
		text := strings.Replace(lessonText, c.old, c.new, 1)
		if text == lessonText {
			t.Fatalf("%q is not there", c.old)
		}
		if c.new == "id: im," { // an id that outputs of the group have: it is part of its result
			text, c.changed = strings.Replace(text, "steps.in.", "steps.im.", 1), "group sub"
		}
		var changed []string
		for i, f := range of(text) {
			if f != base[i] {
				changed = append(changed, steps[i])
			}
		}
		if got := strings.Join(changed, " "); got != c.changed {
			t.Errorf("%q for %q changes %q, want %q", c.new, c.old, got, c.changed)
		}
	}
}

// TestFingerprintOfReads: what cannot be told has no fingerprint, and a long chain has one, soon.
func TestFingerprintOfReads(t *testing.T) {
	p := planOf(t, `name: circle
steps:
  - {id: a, action: work, params: {x: "{{ steps.b.outputs.x | default(1) }}"}}
  - {id: b, action: work, depends_on: [a], params: {x: "{{ steps.a.outputs.x }}"}}
  - {id: copies, action: scan}
  - {id: c, action: work, depends_on: [copy], params: {x: "{{ steps.copy.count }}"}}
  - {id: d, action: work}
  - {id: e, action: work}
`)
	for id, want := range map[string]bool{"a": false, "b": false, "c": false, "d": true} {
		if got := p.Fingerprint(id); (got != "") != want {
			t.Errorf("%s: %q", id, got)
		}
	}
	if p.Fingerprint("d") != p.Fingerprint("e") {
		t.Error("the ids of steps that nobody reads count")
	}
	text := "name: long\nsettings: {sequential: true}\nsteps:\n"
	for i := range 5000 {
		text += fmt.Sprintf("  - {id: s%d, action: work, params: {x: \"{{ source | default(0) }}\"}}\n", i)
	}
	long := planOf(t, text)
	begun := time.Now()
	if long.Fingerprint("s4999") == "" {
		t.Error("a long chain has none")
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("a chain of 5,000 steps took %s", took)
	}
}
