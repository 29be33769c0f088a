package scenario

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/sim"
	"github.com/stepwell/stepwell/spec"
)

// beyond are the sections of the engine's transcripts that a test file tells only up to a point, or not at all, and why. A section that
// is not here is told to its end.
var beyond = map[string]string{
	"01_readiness/4":          "start window",
	"07_spawn/10":             "retry",
	"07_spawn/9":              "a spawn while the execution stops: the steps of a mock come when its attempt begins",
	"08_stop/9":               "wait elsewhere",
	"09_restart/5":            "a restart in one batch with something else",
	"10_retry_execution/1":    "retry",
	"11_lost/3":               "lost before it began",
	"11_lost/6":               "streams, whose items are in the tests of examples/stac",
	"13_segments/1":           "streams, whose items are in the tests of examples/stac",
	"13_segments/10":          "streams, whose items are in the tests of examples/stac",
	"13_segments/11":          "streams, whose items are in the tests of examples/stac",
	"13_segments/2":           "streams, whose items are in the tests of examples/stac",
	"13_segments/3":           "streams, whose items are in the tests of examples/stac",
	"13_segments/4":           "streams, whose items are in the tests of examples/stac",
	"13_segments/5":           "streams, whose items are in the tests of examples/stac",
	"13_segments/6":           "streams, whose items are in the tests of examples/stac",
	"13_segments/7":           "streams, whose items are in the tests of examples/stac",
	"13_segments/8":           "streams, whose items are in the tests of examples/stac",
	"13_segments/9":           "streams, whose items are in the tests of examples/stac",
	"14_held/1":               "start held",
	"14_held/2":               "start held",
	"14_held/3":               "start held",
	"14_held/4":               "start held",
	"14_held/5":               "retry held",
	"15_awaiting/1":           "settle cost",
	"15_awaiting/6":           "wait elsewhere",
	"15_awaiting/7":           "wait elsewhere",
	"16_promises_and_costs/4": "a restart in one batch with something else",
	"16_promises_and_costs/5": "streams, whose items are in the tests of examples/stac",
	"17_weights_and_queues/3": "start priority",
	"18_why/2":                "start window",
	"18_why/5":                "streams, whose items are in the tests of examples/stac",
	"19_revisions/1":          "start revision",
	"19_revisions/3":          "start revision",
	"20_sources/1":            "a lesson, which a test has none of",
	"20_sources/2":            "a lesson, which a test has none of",
	"20_sources/3":            "a lesson, which a test has none of",
	"20_sources/4":            "a lesson, which a test has none of",
}

// apart are sections of which a test file can tell nothing.
var apart = map[string]string{
	"07_spawn/9": "a spawn while the execution stops: the steps of a mock come when its attempt begins",
}

// TestTranscripts tells the sections of the engine's transcripts as test files: what is reported there, a mock says here, and what is
// done to the execution stands under when. Conductor, worker and store then come to the same: status, attempt, outputs and error of
// each step, what each call was given, and the status, outputs and error of the execution.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("../engine/testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	found, all := map[string]string{}, 0
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range sections(string(src)) {
			name := fmt.Sprintf("%s/%d", strings.TrimSuffix(filepath.Base(file), ".txt"), i+1)
			tale := s.tell()
			all++
			if tale.cut != "" {
				found[name] = tale.cut
			}
			if tale.begun && apart[name] == "" {
				t.Run(name, func(t *testing.T) { tale.run(t, name) })
			}
		}
	}
	for name, why := range apart {
		found[name] = why
	}
	for name, why := range found {
		if beyond[name] != why {
			t.Errorf("%s is told up to %q, not to %q", name, why, beyond[name])
		}
	}
	for name := range beyond {
		if found[name] == "" {
			t.Errorf("%s is told to its end: remove it from the list", name)
		}
	}
	t.Logf("%d sections, %d of them to their end", all, all-len(found))
}

// section is one execution of a transcript.
type section struct {
	doc     string
	stanzas [][2][]string // commands, and what came of them
}

func sections(src string) (out []*section) {
	lines := strings.Split(src, "\n")
	for i := 0; i < len(lines); {
		if lines[i] == "" || strings.HasPrefix(lines[i], "#") {
			i++
			continue
		}
		var said [2][]string
		for ; lines[i] != "----"; i++ {
			said[0] = append(said[0], lines[i])
		}
		for i++; i < len(lines) && lines[i] != "" && !strings.HasPrefix(lines[i], "#"); i++ {
			said[1] = append(said[1], lines[i])
		}
		if said[0][0] == "pipeline" {
			out = append(out, &section{doc: strings.Join(said[0][1:], "\n")})
		} else {
			last := out[len(out)-1]
			last.stanzas = append(last.stanzas, said)
		}
	}
	return out
}

// tale is a section as a test.
type tale struct {
	docs  map[string]string
	test  map[string]any
	cut   string // the first command that a test file cannot give
	begun bool

	now     time.Duration
	running map[string]time.Duration // since when, by key
	ran     map[string]bool          // what runs is on record
	revoked map[string]bool
	timers  map[string]time.Duration
	mocks   map[string][]any
	spawned map[string][]any
	when    []any
	calls   map[string][]any
	steps   map[string]map[string]any
	ended   map[string]any
	broken  map[string]bool // their parameters cannot be rendered: they are never called
}

const tick = time.Millisecond

func (s *section) tell() *tale {
	t := &tale{docs: map[string]string{}, test: map[string]any{"name": "it"}, running: map[string]time.Duration{}, ran: map[string]bool{}, revoked: map[string]bool{}, timers: map[string]time.Duration{},
		mocks: map[string][]any{}, spawned: map[string][]any{}, calls: map[string][]any{}, steps: map[string]map[string]any{}, broken: map[string]bool{}}
	for i, doc := range strings.Split(s.doc, "\n---\n") {
		name := "main"
		if i > 0 {
			name = strings.TrimPrefix(strings.SplitN(doc, "\n", 2)[0], "name: ")
		} else {
			doc = "name: main\n" + doc
		}
		t.docs[name+".yaml"] = doc
	}
	if strings.Contains(s.doc, "module: ") {
		t.cut = "streams, whose items are in the tests of examples/stac"
		return t
	}
	if strings.Contains(s.doc, "lesson.") || strings.Contains(s.doc, "source: ") {
		t.cut = "a lesson, which a test has none of"
		return t
	}
	for _, said := range s.stanzas {
		for _, line := range said[0] {
			if strings.HasPrefix(line, "restart ") && len(said[0]) > 1 && !strings.Contains(strings.Join(said[1], "\n"), line+": refused") {
				t.cut = "a restart in one batch with something else"
				t.finish()
				return t
			}
			if why := t.command(line, said[1]); why != "" {
				t.cut = why
				t.finish()
				return t
			}
		}
		t.answers(said[1])
		t.now += tick
	}
	t.finish()
	return t
}

// command takes one command over into the test. It returns what cannot be told.
func (t *tale) command(line string, answers []string) string {
	words := strings.Fields(line)
	what, key := words[0], ""
	if len(words) > 1 {
		key = words[1]
	}
	args := map[string]string{}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		args[k] = v
	}
	text := ""
	if i := strings.IndexAny(line, "{\""); i > 0 && what != "spawn" {
		text = line[i:]
	}
	if strings.HasPrefix(text, `"`) {
		text = text[1 : 1+strings.IndexByte(text[1:], '"')]
	}
	if slices.ContainsFunc(answers, func(a string) bool {
		return strings.HasPrefix(a, line+": nothing changes") || strings.HasPrefix(a, line+": refused")
	}) {
		return "" // nor does it change anything here
	}
	for _, internal := range []string{"epoch", "revision", "window", "about", "held", "parts", "member", "priority", "elsewhere", "iterations"} {
		if _, given := args[internal]; given {
			return what + " " + internal
		}
	}
	switch what {
	case "progress", "why", "preview", "preview-retry", "awaiting", "attempt":
		return "" // questions
	case "start":
		t.begun = true
		if i := strings.IndexByte(line, '{'); i > 0 {
			t.test["params"] = json.RawMessage(line[i:])
		}
	case "advance", "sleep":
		d, err := time.ParseDuration(key)
		if err != nil {
			return line
		}
		t.now += d
	case "running":
		t.now += 1100 * time.Millisecond // after a second it is on record
		t.ran[key] = true
	case "cancel":
		t.at(map[string]any{"cancel": cmp.Or(text, "cancelled")})
	case "pause", "resume":
		t.at(map[string]any{what: true})
	case "crash":
		t.at(map[string]any{"restart_process": true})
	case "restart":
		restart := map[string]any{"restart": key}
		if len(words) > 2 {
			restart["failed_only"] = true
		}
		t.at(restart)
	case "settle":
		signal := map[string]any{"key": t.awaits(key)}
		_, failed := args["failed"]
		_, skipped := args["skipped"]
		switch {
		case signal["key"] == "":
			return "settle of what awaits nothing"
		case args["cost"] != "":
			return "settle cost"
		case failed:
			signal["fail"] = text
			if _, final := args["permanent"]; final {
				signal["permanent"] = true
			}
		case skipped:
			signal["skip"] = text
		case text != "":
			signal["outputs"] = json.RawMessage(text)
		}
		t.at(map[string]any{"signal": signal})
		delete(t.running, key)
	case "spawn":
		return t.spawn(key, words[2:])
	case "done", "fail", "skip", "wait", "lost":
		return t.outcome(what, key, args, text)
	default:
		return what
	}
	return ""
}

func (t *tale) awaits(key string) string {
	for _, m := range t.mocks[key] {
		if w, ok := m.(map[string]any)["wait"].(map[string]any); ok && w["signal"] != nil {
			return w["signal"].(string)
		}
	}
	return ""
}

func (t *tale) at(what map[string]any) {
	t.now += tick
	what["after"] = t.now.String()
	t.when = append(t.when, what)
}

// outcome is how an attempt ends.
func (t *tale) outcome(what, key string, args map[string]string, text string) string {
	t.now += tick
	since, runs := t.running[key]
	o := map[string]any{"takes": max(t.now-since, 0).String()}
	switch {
	case !runs:
		return what + " of a step that does not run"
	case what == "lost" && !t.ran[key]:
		return "lost before it began"
	case t.revoked[key] && what == "fail":
		t.hangs(key)
		delete(t.running, key)
		return ""
	case t.revoked[key]:
		o["ignores_stop"] = true
	}
	if n, err := strconv.Atoi(args["cost"]); err == nil {
		o["cost"] = float64(n) / 1e6
	}
	switch what {
	case "done":
		if text != "" {
			o["outputs"] = json.RawMessage(text)
		}
	case "fail":
		o["fail"] = text
		if _, ok := args["timeout"]; ok {
			o["code"] = stepwell.CodeTimeout
		}
		if _, ok := args["permanent"]; ok {
			o["permanent"] = true
		}
		if _, ok := args["defer"]; ok {
			delete(o, "fail")
			o["defer"] = args["after"]
		} else if args["after"] != "" {
			o["retry_after"] = args["after"]
		}
	case "skip":
		o["skip"] = text
	case "lost":
		o["lose_worker"] = true
	case "wait":
		wait := map[string]any{}
		if args["for"] != "" {
			wait["for"] = args["for"]
		}
		if args["await"] != "" {
			wait["signal"] = args["await"]
		}
		if _, poll := args["poll"]; poll {
			wait["again"] = true
		} else if text != "" {
			wait["outputs"] = json.RawMessage(text)
		}
		o["wait"] = wait
	}
	if s := t.spawned[key]; len(s) > 0 {
		o["spawn"] = s
		delete(t.spawned, key)
	}
	t.mocks[key] = append(t.mocks[key], o)
	delete(t.running, key)
	return ""
}

var spawnForm = regexp.MustCompile(`^(\w+):([^\[{+]+)(\[[^\]]*\])?(\{.*\})?(\+)?$`)

// spawn adds steps to the attempt that runs; here they come when it begins.
func (t *tale) spawn(key string, words []string) string {
	for _, w := range words {
		m := spawnForm.FindStringSubmatch(w)
		if m == nil {
			return "spawn " + w
		}
		one := map[string]any{"name": m[1], "key": m[2], "action": m[1]}
		if m[3] != "" {
			one["depends_on"] = strings.Split(strings.Trim(m[3], "[]"), ",")
		}
		if m[4] != "" {
			one["params"] = json.RawMessage(m[4])
		}
		if m[5] != "" {
			one["on_failure"] = "continue"
		}
		t.spawned[key] = append(t.spawned[key], one)
	}
	return ""
}

var (
	dispatchForm  = regexp.MustCompile(`^  dispatch (\S+)((?:, [a-z]+ [^{ ]\S*)*)(?: (\{.*\}))?$`)
	revokeForm    = regexp.MustCompile(`^  revoke (\S+)$`)
	stepForm      = regexp.MustCompile(`^(\S+): (pending|queued|running|waiting|retrying|completed|failed|skipped|cancelled|timed_out)(?:, attempt (\d+))?(?: (\{.*?\}))?(?: \((.*)\))?(?:, cost (\d+))?$`)
	timerForm     = regexp.MustCompile(`^  timer of (\S+) in (\S+)$`)
	executionForm = regexp.MustCompile(`^execution (\w+)(?:, longer than (\w+))?(?:: (.*?))?(?: \[(\S+)\])?(?: (\{.*\}))?$`)
)

// answers are what must come of it.
func (t *tale) answers(lines []string) {
	for _, line := range lines {
		if m := timerForm.FindStringSubmatch(line); m != nil {
			if d, err := time.ParseDuration(m[2]); err == nil {
				t.timers[m[1]] = t.now + d
			}
		} else if m := dispatchForm.FindStringSubmatch(line); m != nil {
			if _, runs := t.running[m[1]]; runs {
				t.hangs(m[1]) // it was cut off
			}
			delete(t.revoked, m[1])
			delete(t.ran, m[1])
			delete(t.steps, m[1])
			since := t.now
			if due, ok := t.timers[m[1]]; ok && due <= t.now {
				since = due
			}
			t.running[m[1]] = since
			t.calls[m[1]] = append(t.calls[m[1]], json.RawMessage(cmp.Or(m[3], "{}")))
		} else if m := revokeForm.FindStringSubmatch(line); m != nil {
			t.revoked[m[1]] = true
		} else if strings.HasPrefix(line, "  dispatch ") {
			t.broken[strings.Fields(line)[1]] = true
		} else if m := executionForm.FindStringSubmatch(line); m != nil {
			t.ended = nil
			switch m[1] {
			case "completed", "completed_with_failures", "failed", "cancelled", "timed_out":
				t.ended = map[string]any{"status": m[1], "breached": cmp.Or(m[2], "none")}
				if m[3] != "" {
					t.ended["error"] = message(m[3])
					if m[4] != "" {
						t.ended["error"].(map[string]any)["step"] = m[4]
					}
				}
				if m[5] != "" {
					t.ended["outputs"] = map[string]any{"$exact": json.RawMessage(m[5])}
				}
			}
		} else if m := stepForm.FindStringSubmatch(line); m != nil {
			t.state(m)
		}
	}
}

func (t *tale) state(m []string) {
	key := m[1]
	switch m[2] {
	case "completed", "failed", "skipped", "cancelled", "timed_out":
		s := map[string]any{"status": m[2]}
		if m[3] != "" {
			s["attempts"] = json.RawMessage(m[3])
		}
		if m[4] != "" {
			s["outputs"] = map[string]any{"$exact": json.RawMessage(m[4])}
		}
		if m[5] != "" {
			s["error"] = message(m[5])
		}
		if n, err := strconv.Atoi(m[6]); err == nil {
			s["cost"] = float64(n) / 1e6
		}
		t.steps[key] = s
		if _, runs := t.running[key]; runs && t.calls[key] != nil {
			t.hangs(key) // something else ended it
		}
		delete(t.running, key)
	case "pending":
		maps.DeleteFunc(t.steps, func(k string, _ map[string]any) bool {
			return k == key || strings.HasPrefix(k, key+".") || strings.HasPrefix(k, key+"[")
		})
	default:
		delete(t.steps, key)
	}
}

// finish ends what the section leaves open: what runs hangs, and the execution is cancelled. What is known until then counts.
func (t *tale) finish() {
	for key := range t.running {
		t.hangs(key)
	}
	expect := map[string]any{"steps": t.steps, "calls": map[string]any{}}
	if t.ended == nil {
		t.at(map[string]any{"cancel": "the section is over"})
		for key := range t.running {
			delete(t.calls, key) // the last one may have begun or not
		}
	} else {
		maps.Copy(expect, t.ended)
	}
	for key, list := range t.calls {
		if !t.broken[key] {
			expect["calls"].(map[string]any)[key] = map[string]any{"$exact": list}
		}
	}
	t.test["expect"] = expect
	if len(t.mocks) > 0 {
		t.test["mock"] = t.mocks
	}
	if len(t.when) > 0 {
		t.test["when"] = t.when
	}
}

// message is an error with a text, in which workers have other names here.
func message(text string) map[string]any {
	if strings.Contains(text, "{{") || strings.Contains(text, "host-") {
		return map[string]any{"message": map[string]any{"$match": "^" + regexp.MustCompile(`host-\d+`).ReplaceAllString(regexp.QuoteMeta(text), `sim(-\d+)?`) + "$"}}
	}
	return map[string]any{"message": text}
}

// hangs is the outcome of an attempt that does not end by itself.
func (t *tale) hangs(key string) {
	o := map[string]any{"hang": true}
	if s := t.spawned[key]; len(s) > 0 {
		o["spawn"] = s
		delete(t.spawned, key)
	}
	t.mocks[key] = append(t.mocks[key], o)
}

var actionForm = regexp.MustCompile(`(?:action|module): ([a-z.]+)`)

// run writes the test file, reads it and runs it.
func (t *tale) run(tt *testing.T, name string) {
	clock, r := &sim.Clock{}, &action.Registry{}
	for _, known := range []spec.Spec{{Name: "scan", Spawns: []string{"copy", "extract", "verify"}}, {Name: "copy", Spawns: []string{"extract"}}, {Name: "extract"}, {Name: "deploy.once", NotIdempotent: true},
		{Name: "flaky", Retry: &stepwell.Retry{MaxAttempts: 2, Backoff: time.Second}}, {Name: "verify"}, {Name: "extra"}, {Name: "follow"}, {Name: "x"}, {Name: "y"}, {Name: "z"}, {Name: "q"}} {
		known.Summary, known.OpenParams, known.OpenOutputs = "Of the transcripts.", true, true
		if err := r.Announce(known); err != nil {
			tt.Fatal(err)
		}
	}
	for _, doc := range t.docs {
		for _, m := range actionForm.FindAllStringSubmatch(doc, -1) {
			if _, known := r.Spec(m[1]); !known {
				if err := r.Announce(spec.Spec{Name: m[1], Summary: "Of the transcripts.", OpenParams: true, OpenOutputs: true, Spawns: []string{"extra", "follow", "verify", "x", "y", "z", "q"}}); err != nil {
					tt.Fatal(err)
				}
			}
		}
	}
	raw, err := json.MarshalIndent(map[string]any{"pipeline": "main.yaml", "unmocked": "empty", "tests": []any{t.test}}, "", "  ")
	if err != nil {
		tt.Fatal(err)
	}
	tests, problems := Parse("section.test.json", raw)
	if problems.Err() != nil {
		tt.Fatalf("%v\n%s", problems.Err(), raw)
	}
	tests[0].Open = t.ended == nil
	runner := NewRunner(Options{Actions: r, Clock: clock, Load: func(file string) (*definition.Definition, definition.Problems, error) { return t.load(r, file) }})
	result, err := runner.Run(tt.Context(), tests[0])
	if err != nil {
		tt.Fatal(err)
	}
	for _, f := range result.Failures {
		tt.Errorf("%s: %s\n  %s", name, f.Message, strings.Join(f.Events, "\n  "))
	}
	if tt.Failed() {
		tt.Logf("%s\n%s", t.docs["main.yaml"], raw)
	}
}

func (t *tale) load(r *action.Registry, file string) (*definition.Definition, definition.Problems, error) {
	var first *definition.Definition
	var all definition.Problems
	others := map[string]*definition.Definition{}
	for name, doc := range t.docs {
		d, problems := definition.Parse([]byte(doc), definition.ParseOptions{File: name})
		if all = append(all, problems...); d == nil {
			return nil, all, errors.New("it cannot be read")
		}
		if name == file {
			first = d
		} else {
			others[d.Name] = d
		}
	}
	first.Pipelines = others
	return first, all, nil
}
