package lint_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/lint"
	"github.com/stepwell/stepwell/schedule"
)

const child = `name: child
parameters:
  - {name: region, type: string, enum: [eu, us]}
  - {name: size, type: integer}
  - {name: note, type: string, default: ""}
steps:
  - {id: inner, action: util.log, params: {message: "{{ params.region }} {{ params.size }} {{ params.note }}"}}
outputs: {message: "{{ steps.inner.outputs.message }}"}
`

type fault struct {
	title, text string
	want        []string // "3 SW101"
}

var marker = regexp.MustCompile(`\s#! ([SW0-9 ]+)$`)

func faults(t testing.TB) (list []fault) {
	t.Helper()
	src, err := os.ReadFile("testdata/faults.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(src), "\n== ")[1:] {
		title, text, _ := strings.Cut(block, "\n")
		f := fault{title: title}
		for i, line := range strings.Split("name: fault\n"+text, "\n") {
			if m := marker.FindStringSubmatch(line); m != nil {
				line = strings.TrimSuffix(line, m[0])
				for code := range strings.FieldsSeq(m[1]) {
					f.want = append(f.want, fmt.Sprint(i+1, " ", code))
				}
			}
			f.text += line + "\n"
		}
		list = append(list, f)
	}
	return list
}

// TestFaults: each planted fault is found where it is, by its rule, and nothing else is.
func TestFaults(t *testing.T) {
	sub, problems := definition.Parse([]byte(child), definition.ParseOptions{})
	if problems.Err() != nil {
		t.Fatal(problems)
	}
	found := map[string]bool{}
	list := faults(t)
	for _, f := range list {
		t.Run(f.title, func(t *testing.T) {
			problems, _ := read(t, "fault.yaml", []byte(f.text), map[string]*definition.Definition{"child": sub}, lint.Facts{})
			var got []string
			for _, p := range problems {
				got = append(got, fmt.Sprint(p.Line, " ", p.Code))
				found[p.Code] = true
				if rule, ok := lint.RuleOf(p.Code); !ok || !rule.Error && !p.Warning {
					t.Errorf("no rule, or an error of a rule that has none: %v", p)
				}
			}
			if strings.Contains(f.title, "without a reason") {
				f.want = []string{"3 SW002", "3 SW201"}
				slices.Sort(got)
			}
			if !slices.Equal(got, f.want) {
				t.Errorf("found %v, not %v: %v\n%s", got, f.want, problems, f.text)
			}
		})
	}
	if len(list) < 70 {
		t.Errorf("only %d faults", len(list))
	}
	for _, r := range lint.Rules {
		if !found[r.Code] && r.Code != lint.CodeInvalid && r.Code[:3] != "SW5" {
			t.Errorf("no fault breaks %s", r.Code)
		}
	}
}

// TestSchedules are faults of schedules, which are facts.
func TestSchedules(t *testing.T) {
	now := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		timing  schedule.Spec
		usual   time.Duration
		catchUp time.Duration
		want    string
	}{
		{schedule.Spec{Cron: "0 3 30 2 *"}, 0, 0, "SW501"},
		{schedule.Spec{Cron: "61 * * * *"}, 0, 0, "SW501"},
		{schedule.Spec{Cron: "0 3 * * *", NotAfter: now.AddDate(0, -1, 0)}, 0, 0, "SW501"},
		{schedule.Spec{Cron: "30 2 * * *", Zone: "Europe/Berlin"}, 0, 0, "SW502"},
		{schedule.Spec{Cron: "30 2 * * *", Zone: "Europe/Berlin", Repeated: schedule.Both}, 0, 0, "SW502 SW502"},
		{schedule.Spec{Cron: "30 2 * * *", Zone: "Europe/Berlin", Skipped: schedule.SkipMissing}, 0, 0, "SW502"},
		{schedule.Spec{Cron: "*/5 * * * *"}, 10 * time.Minute, 0, "SW503"},
		{schedule.Spec{Every: "1h"}, 2 * time.Hour, 0, "SW503"},
		{schedule.Spec{Every: "1h"}, 0, 60 * 24 * time.Hour, "SW503"},
		{schedule.Spec{Cron: "30 12 * * *", Zone: "Europe/Berlin"}, time.Hour, time.Hour, ""},
	} {
		facts := lint.Facts{Now: now, Usual: c.usual, Retention: 30 * 24 * time.Hour, Schedules: []lint.Schedule{{Name: "nightly", Timing: c.timing, CatchUp: c.catchUp}}}
		problems, _ := read(t, "a.yaml", []byte("name: a\nsteps: [{id: a, action: util.noop}]\n"), nil, facts)
		var got []string
		for _, p := range problems {
			got = append(got, p.Code)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v: %v, not %s", c, problems, c.want)
		}
	}
}

// TestLimits are faults of time limits, by what past executions took.
func TestLimits(t *testing.T) {
	const text = "name: a\nsettings: {timeout_seconds: 600}\nsteps:\n  - {id: get, action: util.http, params: {url: \"https://example.com\"}, timeout_seconds: 60, retry: {max_attempts: 2}}\n"
	for _, c := range []struct {
		facts lint.Facts
		want  string
	}{
		{lint.Facts{}, ""},
		{lint.Facts{Usual: 9 * time.Minute, Steps: map[string]time.Duration{"get": time.Minute, "gone": time.Hour}}, ""},
		{lint.Facts{Steps: map[string]time.Duration{"get": 61 * time.Second}}, "4 SW504"},
		{lint.Facts{Usual: 11 * time.Minute}, "2 SW504"},
		{lint.Facts{Usual: time.Hour, Steps: map[string]time.Duration{"get": time.Hour}, Schedules: []lint.Schedule{{Name: "s", Timing: schedule.Spec{Every: "30m"}}}}, "2 SW504 4 SW504 0 SW503"},
		{lint.Facts{Usual: 9 * time.Minute, Schedules: []lint.Schedule{{Name: "s", Timing: schedule.Spec{Every: "5m"}, Overlaps: true}}}, ""},
	} {
		problems, _ := read(t, "a.yaml", []byte(text), nil, c.facts)
		var got []string
		for _, p := range problems {
			got = append(got, fmt.Sprint(p.Line, " ", p.Code))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v: %v, not %s", c.facts, problems, c.want)
		}
	}
}

// TestSuppress: a comment with a code and a reason hides that rule on its line or the line below, and nothing else.
func TestSuppress(t *testing.T) {
	const step = "  - {id: a, action: util.noop, condition: \"1 > 2\"}"
	for text, want := range map[string]string{
		step + " # stepwell: ignore SW201 not yet\n":                                "",
		"  # stepwell: ignore SW201 not yet\n" + step + "\n":                        "",
		"  # stepwell: ignore SW202,SW201 not yet\n" + step + "\n":                  "",
		"  # stepwell: ignore SW202 not yet\n" + step + "\n":                        "SW002 SW201",
		"  # stepwell: ignore not yet\n" + step + "\n":                              "SW002 SW201",
		step + "\n  # stepwell: ignore SW201 too late\n":                            "SW201 SW002",
		"  - {id: b, action: util.nope} # stepwell: ignore SW001 a plugin has it\n": "SW001 SW002",
	} {
		problems, _ := read(t, "a.yaml", []byte("name: a\nsteps:\n"+text), nil, lint.Facts{})
		var got []string
		for _, p := range problems {
			got = append(got, p.Code)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s gives %v, not %s", text, problems, want)
		}
	}
}

// TestSARIF holds the output against what SARIF 2.1.0 requires, and what code scanning reads.
func TestSARIF(t *testing.T) {
	var all definition.Problems
	for i, f := range faults(t) {
		problems, _ := read(t, fmt.Sprintf("dir %d/ä.yaml", i), []byte(f.text), nil, lint.Facts{})
		all = append(all, problems...)
	}
	all = append(all, definition.Problem{File: "gone.yaml", Message: "there is no file", Code: lint.CodeInvalid})
	var b strings.Builder
	if err := lint.WriteSARIF(&b, "v1.2.3", all); err != nil {
		t.Fatal(err)
	}
	var log map[string]any
	if err := json.Unmarshal([]byte(b.String()), &log); err != nil {
		t.Fatal(err)
	}
	if log["version"] != "2.1.0" {
		t.Error("version:", log["version"])
	}
	run := log["runs"].([]any)[0].(map[string]any)
	driver := run["tool"].(map[string]any)["driver"].(map[string]any)
	rules := driver["rules"].([]any)
	if driver["name"] != "stepwell" || len(rules) != len(lint.Rules) {
		t.Error("driver:", driver["name"], len(rules))
	}
	results := run["results"].([]any)
	if len(results) != len(all) {
		t.Fatalf("%d results for %d problems", len(results), len(all))
	}
	for i, r := range results {
		r := r.(map[string]any)
		rule := rules[int(r["ruleIndex"].(float64))].(map[string]any)
		place := r["locations"].([]any)[0].(map[string]any)["physicalLocation"].(map[string]any)
		uri := place["artifactLocation"].(map[string]any)["uri"].(string)
		region, _ := place["region"].(map[string]any)
		switch {
		case r["ruleId"] != all[i].Code || rule["id"] != r["ruleId"]:
			t.Errorf("rule %v at %v", r["ruleId"], rule["id"])
		case r["level"] != "warning" && r["level"] != "error":
			t.Error("level:", r["level"])
		case r["message"].(map[string]any)["text"] == "":
			t.Error("no message")
		case uri == "" || strings.ContainsAny(uri, " ä\\"):
			t.Error("uri:", uri)
		case all[i].Line > 0 && (region["startLine"].(float64) < 1 || region["startColumn"].(float64) < 1):
			t.Error("region:", region)
		}
	}
}

// TestGitHub: a message with line ends and percent signs stays one command.
func TestGitHub(t *testing.T) {
	var b strings.Builder
	p := definition.Problem{File: "a,b:c.yaml", Line: 3, Column: 7, Message: "100% of\nit", Hint: "try: this, that", Warning: true, Code: "SW101"}
	if err := lint.WriteGitHub(&b, definition.Problems{p, {File: "d.yaml", Message: "no file", Code: "SW001"}}); err != nil {
		t.Fatal(err)
	}
	want := "::warning file=a%2Cb%3Ac.yaml,line=3,col=7,title=SW101::100%25 of%0Ait%0Atry: this, that\n::error file=d.yaml,title=SW001::no file\n"
	if b.String() != want {
		t.Errorf("%q\nnot %q", b.String(), want)
	}
}

// FuzzFind: no document, however broken, makes the rules panic or loses the order and the codes.
func FuzzFind(f *testing.F) {
	for _, fault := range faults(f) {
		f.Add(fault.text)
	}
	f.Add(child)
	f.Add("name: x\nsteps:\n  - {id: a, depends_on: [b], action: util.noop}\n  - {id: b, depends_on: [a], trigger_rule: one_failed, action: util.noop} # stepwell: ignore\n")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 {
			return
		}
		problems, def := read(t, "f.yaml", []byte(text), nil, lint.Facts{})
		if def == nil {
			return
		}
		for i, p := range problems {
			if _, ok := lint.RuleOf(p.Code); !ok {
				t.Errorf("no rule: %v", p)
			}
			if i > 0 && p.Line > 0 && (problems[i-1].Line == 0 || cmp.Compare(problems[i-1].Line, p.Line) > 0) {
				t.Errorf("not in order: %v", problems)
			}
		}
	})
}
