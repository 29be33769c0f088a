package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/store"
)

// defined is the input of stepwell.run for the text of a pipeline.
func defined(text, params string) string {
	raw, _ := json.Marshal(text) // of a text
	return `{"definition":` + string(raw) + `,"params":` + params + `}`
}

// chain is a pipeline of n steps, each of which reads the one before.
func chain(n int) string {
	var b strings.Builder
	b.WriteString("name: chain\nsteps:\n  - {id: s0, action: util.set_output, params: {outputs: {n: 0}}}\n")
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, "  - {id: s%d, action: util.set_output, depends_on: [s%d], params: {outputs: {n: \"{{ steps.s%d.outputs.n + 1 }}\"}}}\n", i, i-1, i-1)
	}
	fmt.Fprintf(&b, "outputs: {n: \"{{ steps.s%d.outputs.n }}\"}\n", n-1)
	return b.String()
}

// fanOut repeats a step n times.
func fanOut(n int) string {
	return fmt.Sprintf("name: fan\nsteps:\n  - id: each\n    for_each: {items: %d}\n    action: util.set_output\n    params: {outputs: {n: \"{{ item }}\"}}\noutputs: {count: \"{{ steps.each.outputs.results | length }}\"}\n", n)
}

// modes are ways in which a sidecar may behave; the result is the same in all.
var modes = map[string]func(*simulation){
	"plain":     func(*simulation) {},
	"forgetful": func(s *simulation) { s.forgets = true },
	"double":    func(s *simulation) { s.doubles = true },
	"both":      func(s *simulation) { s.forgets, s.doubles = true, true },
}

func TestHosted(t *testing.T) {
	for _, x := range []struct{ name, text, params, want string }{
		{"chain", chain(20), `{}`, `COMPLETED {"n":19}`},
		{"params", "name: p\nparameters: [{name: n, type: integer}]\nsteps:\n  - {id: a, action: util.noop}\noutputs: {twice: \"{{ params.n * 2 }}\"}\n", `{"n": 21}`, `COMPLETED {"twice":42}`},
		{"fan", fanOut(30), `{}`, `COMPLETED {"count":30}`},
		{"retries", "name: r\nsteps:\n  - {id: a, action: util.test_count, params: {as: MODE, fails: 2}, retry: {max_attempts: 3, backoff_seconds: 60}}\noutputs: {calls: \"{{ steps.a.outputs.calls }}\"}\n", `{}`, `COMPLETED {"calls":3}`},
		{"waits", "name: w\nsteps:\n  - {id: a, action: util.wait, params: {duration: 1h}}\n", `{}`, `COMPLETED`},
		{"fails", "name: f\nsteps:\n  - {id: a, action: util.fail, params: {message: out of luck}}\n  - {id: b, action: util.noop, depends_on: [a]}\n", `{}`, `FAILED the execution is failed: INTENTIONAL_FAILURE: out of luck (step a)`},
		{"condition", "name: c\nsteps:\n  - {id: a, action: util.set_output, params: {outputs: {x: 1}}}\n  - {id: b, action: util.fail, condition: \"{{ steps.a.outputs.x == 2 }}\", depends_on: [a], params: {message: no}}\n", `{}`, `COMPLETED`},
		{"no action", "name: n\nsteps:\n  - {id: a, action: util.nothing}\n", `{}`, "FAILED"},
		{"no params", "name: p\nparameters: [{name: n, type: integer}]\nsteps:\n  - {id: a, action: util.noop}\n", `{}`, "FAILED"},
		{"stream", "name: p\nsteps:\n  - {id: a, action: util.exec, params: {command: [\"true\"]}}\n", `{}`, "FAILED"},
		{"loop of a group", "name: g\nsteps:\n  - id: each\n    for_each: {items: 3, max_concurrency: 1}\n    steps:\n      - {id: a, action: util.set_output, params: {outputs: {n: \"{{ item }}\"}}}\n      - {id: b, action: util.noop, depends_on: [a]}\n", `{}`, "COMPLETED"},
	} {
		t.Run(x.name, func(t *testing.T) {
			for mode, set := range modes {
				h, _ := newTestHosting(t, "")
				s := &simulation{t: t, h: h, instance: "i-" + mode}
				set(s)
				s.start(RunWorkflow, defined(strings.ReplaceAll(x.text, "MODE", mode), x.params))
				got := s.run().end()
				if x.want == "FAILED" && strings.HasPrefix(got, "FAILED ") && len(got) > len("FAILED ")+10 {
					continue // for the reason that Check gives
				}
				if got != x.want {
					t.Errorf("%s: %s", mode, got)
				}
			}
		})
	}
}

// TestHostedLarge: a long chain continues as new. The steps of a wide fan-out share activities if they are fast, else they become children.
func TestHostedLarge(t *testing.T) {
	for mode, set := range modes {
		h, n := newTestHosting(t, "")
		s := &simulation{t: t, h: h, instance: "chain"}
		set(s)
		s.start(RunWorkflow, defined(chain(220), `{}`))
		if got := s.run().end(); got != `COMPLETED {"n":219}` || s.renewed < 4 {
			t.Errorf("%s: %s, continued as new %d times", mode, got, s.renewed)
		}
		for _, fast := range []bool{true, false} {
			n.forget()
			s = &simulation{t: t, h: h, instance: fmt.Sprint("fan-", fast)}
			if h.batchTime = 0; fast {
				h.batchTime = time.Hour
			}
			set(s)
			s.start(RunWorkflow, defined("name: fan\nsteps:\n  - id: each\n    for_each: {items: 550}\n    action: util.test_count\n    params: {as: \"n{{ item }}\"}\noutputs: {count: \"{{ steps.each.outputs.results | length }}\"}\n", `{}`))
			got := s.run().end()
			if fast && (s.children > 0 || s.activities > 100) || !fast && s.children < 15 || got != `COMPLETED {"count":550}` {
				t.Errorf("%s, fast %v: %s with %d children and %d activities", mode, fast, got, s.children, s.activities)
			}
			for i := range 550 {
				if calls := n.of(fmt.Sprintf("n%d", i)); calls != 1 {
					t.Fatalf("%s: iteration %d ran %d times", mode, i, calls)
				}
			}
		}
	}
}

// TestHostedSignals: events of the workflow end steps that wait, also those that come early; suspending pauses, terminating cancels.
func TestHostedSignals(t *testing.T) {
	waits := "name: w\nsteps:\n  - {id: a, action: util.wait_for, params: {event: go}}\n  - {id: b, action: util.noop, depends_on: [a]}\nfinally:\n  - {id: f, action: util.test_count, params: {as: finally}}\noutputs: {by: \"{{ steps.a.outputs.by }}\"}\n"
	for mode, set := range modes {
		h, n := newTestHosting(t, "")
		start := func(text string) *simulation {
			s := &simulation{t: t, h: h, instance: "i"}
			set(s)
			s.start(RunWorkflow, defined(text, `{}`))
			return s
		}
		s := start(waits).run()
		if !strings.Contains(s.status, `"awaits":["event:go"]`) {
			t.Errorf("%s: it says %s", mode, s.status)
		}
		s.inbox = append(s.inbox, raised("event:other", `{}`), raised("event:go", `{"outputs":{"by":"anna"}}`))
		if got := s.run().end(); got != `COMPLETED {"by":"anna"}` {
			t.Errorf("%s: %s", mode, got)
		}

		s = start(waits)
		s.inbox = append(s.inbox, raised("event:go", `{"outputs":{"by":"early"}}`))
		if got := s.run().end(); got != `COMPLETED {"by":"early"}` {
			t.Errorf("%s: early: %s", mode, got)
		}

		s = start("name: w\nsteps:\n  - {id: a, action: util.approval, params: {message: go}}\n").run()
		s.inbox = append(s.inbox, raised("approval:i/a", `{"outputs":{"approved":false},"by":"anna"}`))
		if got := s.run().end(); got != "FAILED the execution is failed: rejected by anna (step a)" {
			t.Errorf("%s: rejected: %s", mode, got)
		}

		was := n.of("finally")
		s = start(waits).run()
		s.inbox = append(s.inbox, suspended)
		s.run()
		s.inbox = append(s.inbox, raised("event:go", `{"outputs":{"by":"bob"}}`))
		if s.run(); s.ended != nil || n.of("finally") != was || !strings.Contains(s.status, `"status":"paused"`) {
			t.Errorf("%s: a suspended workflow continues: %s", mode, s.status)
		}
		s.inbox = append(s.inbox, resumed)
		if got := s.run().end(); got != `COMPLETED {"by":"bob"}` {
			t.Errorf("%s: resumed: %s", mode, got)
		}

		was = n.of("finally")
		for _, before := range []bool{false, true} {
			s = start(waits).run()
			if before {
				s.inbox = append(s.inbox, suspended)
				s.run()
			}
			s.inbox = append(s.inbox, terminated)
			if got := s.run().end(); !strings.HasPrefix(got, "TERMINATED the execution is cancelled") {
				t.Errorf("%s: terminated: %s", mode, got)
			}
		}
		if n.of("finally") != was+2 {
			t.Errorf("%s: its finally did not run", mode)
		}
	}
}

// TestHostedPipelines: pipelines are files of a folder, and run others of it.
func TestHostedPipelines(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"outer.yaml": "name: outer\nsteps:\n  - {id: a, pipeline: inner, params: {n: 4}}\noutputs: {n: \"{{ steps.a.outputs.n }}\"}\n",
		"inner.yml":  "name: inner\nparameters: [{name: n, type: integer}]\nsteps:\n  - {id: x, action: util.noop}\noutputs: {n: \"{{ params.n }}\"}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h, _ := newTestHosting(t, dir)
	if got := h.simulate(t, RunWorkflow, "i", `{"pipeline":"outer"}`).run().end(); got != `COMPLETED {"n":4}` {
		t.Error(got)
	}
	for _, input := range []string{`{"pipeline":"../outer"}`, `{"pipeline":"nothing"}`, `{}`, `"text"`, `{"pipeline":"outer","definition":{}}`, `{"pipeline":"outer","version":2}`, `{"pipeline":"outer","params":[]}`,
		`{"carried":{"revision":1}}`, `{"carried":{"revision":2,"definition":{},"log":["x"]}}`} {
		if got := h.simulate(t, RunWorkflow, "i", input).run().end(); !strings.HasPrefix(got, "FAILED ") {
			t.Errorf("%s: %s", input, got)
		}
	}
}

// TestHostedLines: the log lines of steps come with their execution and step.
func TestHostedLines(t *testing.T) {
	said := make(chan string, 10)
	h, err := newHosting(hostingOptions{Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Lines: func(l store.LogLine, execution string) { said <- execution + " " + l.StepKey + " " + l.Message }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- h.serve(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil }) }()
	defer func() { stop(); <-served }()
	if got := h.simulate(t, RunWorkflow, "i", defined("name: p\nsteps:\n  - {id: a, action: util.log, params: {message: hello}}\n", `{}`)).run().end(); got != "COMPLETED" {
		t.Fatal(got)
	}
	if got := <-said; got != "i a hello" {
		t.Errorf("it says %q", got)
	}
}
