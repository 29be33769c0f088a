package main

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The folder that commit 959b842 left when its server was killed (testdata/revision1/make.sh).
const revision1 = "testdata/revision1/fixture.tar.gz"

// TestRevision1 holds what this program makes of the data of commit 959b842 against what that commit's program made of it:
// it shows, resumes, restarts and retries the executions with the same statuses, attempts, outputs and events. Conditions on
// undefined names and conversions of text that is no number are among them, so that step logs of revision 1 are folded by the
// rules that they were made with.
//
// With STEPWELL_FIXTURE_PROGRAM (that commit's program) and -update the expectations are written again.
func TestRevision1(t *testing.T) {
	for _, c := range []struct {
		name string
		file string     // removed first
		args [][]string // commands that change something; a word that names a pipeline stands for its execution
		show string     // the pipeline whose executions are shown afterwards
	}{
		{name: "show-ended", show: "ended"},
		{name: "show-failed", show: "failed"},
		{name: "show-streamed", show: "streamed"},
		{name: "show-waiting", show: "waiting"},
		{name: "show-flight", show: "flight"},
		{name: "show-streaming", show: "streaming"},
		{name: "resume-waiting", args: [][]string{{"resume", "waiting"}}, show: "waiting"},
		{name: "resume-flight", file: "hold", args: [][]string{{"resume", "flight"}}, show: "flight"},
		{name: "resume-streaming", args: [][]string{{"resume", "streaming"}}, show: "streaming"},
		{name: "restart-ended", args: [][]string{{"restart", "ended", "facts"}}, show: "ended"},
		{name: "restart-failed", file: "fault", args: [][]string{{"restart", "failed", "second"}}, show: "failed"},
		{name: "retry-failed", file: "fault", args: [][]string{{"retry", "failed"}}, show: "failed"},
		{name: "cancel-waiting", args: [][]string{{"cancel", "waiting"}}, show: "waiting"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rig := newRevision1Rig(t)
			if c.file != "" {
				if err := os.Remove(filepath.Join(rig.dir, c.file)); err != nil {
					t.Fatal(err)
				}
			}
			for _, args := range c.args {
				rig.change(args...)
			}
			rig.compare(c.name, c.show)
		})
	}
}

// revision1Rig is a copy of the fixture, and the program that works on it.
type revision1Rig struct {
	t       *testing.T
	dir     string
	program string
	ids     map[string]string // executions by the name of their pipeline
}

func newRevision1Rig(t *testing.T) *revision1Rig {
	rig := &revision1Rig{t: t, dir: t.TempDir(), program: "stepwell", ids: map[string]string{}}
	if program := os.Getenv("STEPWELL_FIXTURE_PROGRAM"); program != "" {
		rig.program = program
	}
	extract(t, revision1, rig.dir)
	ids, err := os.ReadFile(filepath.Join(rig.dir, "ids"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(ids)) {
		name, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		rig.ids[name] = id
	}
	return rig
}

// change runs a command of `executions`; the execution may end as it likes.
func (r *revision1Rig) change(args ...string) {
	r.t.Helper()
	words := []string{"executions"}
	for _, a := range args {
		if id, named := r.ids[a]; named {
			a = id
		}
		words = append(words, a)
	}
	if out, err := r.run(words...); exitCode(err) != exitOK && exitCode(err) != exitFailed && exitCode(err) != exitPartly {
		r.t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

func (r *revision1Rig) run(args ...string) (string, error) {
	cmd := exec.CommandContext(r.t.Context(), r.program, args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "TZ=UTC")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return string(out) + errs.String(), err
	}
	return string(out), nil
}

// compare holds the executions of a pipeline, each with its steps, outputs and events, against what commit 959b842 showed.
func (r *revision1Rig) compare(name, pipeline string) {
	r.t.Helper()
	var got []any
	for _, id := range r.executions(pipeline) {
		got = append(got, r.shown(id))
	}
	golden := filepath.Join("testdata/revision1", name+".json")
	text, err := json.MarshalIndent(got, "", " ")
	if err != nil {
		r.t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(golden, append(text, '\n'), 0o644); err != nil {
			r.t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		r.t.Fatal(err)
	}
	var was, is any
	if err := errors.Join(json.Unmarshal(want, &was), json.Unmarshal(text, &is)); err != nil {
		r.t.Fatal(err)
	}
	withoutStarts(was)
	withoutStarts(is)
	if diff := cmp.Diff(was, withoutAdded(was, is, false)); diff != "" {
		r.t.Errorf("%s (-959b842 +now):\n%s", golden, diff)
	}
}

// withoutStarts leaves the starts of attempts out: one is told of when it has gone on for a second, which is the machine's
// to decide.
func withoutStarts(shown any) {
	list, _ := shown.([]any)
	for _, execution := range list {
		e, _ := execution.(map[string]any)
		steps, _ := e["steps"].([]any)
		for _, step := range steps {
			if s, _ := step.(map[string]any); s["events"] != nil {
				events, _ := s["events"].([]any)
				s["events"] = slices.DeleteFunc(events, func(event any) bool { return event == "started" })
			}
		}
	}
}

// withoutAdded leaves members out that outputs did not have then: a later version may give more.
func withoutAdded(was, is any, outputs bool) any {
	switch is := is.(type) {
	case map[string]any:
		before, ok := was.(map[string]any)
		if !ok {
			return is
		}
		for key := range is {
			if _, there := before[key]; outputs && !there {
				delete(is, key)
				continue
			}
			is[key] = withoutAdded(before[key], is[key], outputs || key == "outputs")
		}
	case []any:
		before, ok := was.([]any)
		if !ok || len(before) != len(is) {
			return is
		}
		for i := range is {
			is[i] = withoutAdded(before[i], is[i], outputs)
		}
	}
	return is
}

// executions are a pipeline's, oldest first.
func (r *revision1Rig) executions(pipeline string) []string {
	var list []struct {
		ID       string `json:"execution_id"`
		Pipeline string
	}
	r.read(&list, "executions", "list", "-o", "json")
	var ids []string
	for _, e := range slices.Backward(list) {
		if e.Pipeline == pipeline {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

func (r *revision1Rig) read(into any, args ...string) {
	r.t.Helper()
	out, err := r.run(args...)
	if err != nil {
		r.t.Fatalf("%v: %v\n%s", args, err, out)
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		r.t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// shown is what of an execution must stay: no times, no names of workers, and the events of each step in their order.
func (r *revision1Rig) shown(id string) any {
	type step struct {
		Step    string   `json:"step_id"`
		Status  string   `json:"status"`
		Attempt int      `json:"attempt"`
		Outputs any      `json:"outputs,omitempty"`
		Error   any      `json:"error,omitempty"`
		Events  []string `json:"events,omitempty"`
	}
	var e struct {
		Pipeline string `json:"pipeline"`
		Status   string `json:"status"`
		Trigger  string `json:"trigger"`
		Params   any    `json:"params"`
		Outputs  any    `json:"outputs,omitempty"`
		Error    any    `json:"error,omitempty"`
		Steps    []step `json:"steps"`
	}
	var now struct { // the names of today
		Trigger string `json:"trigger_type"`
		Outputs any    `json:"result"`
	}
	r.read(&e, "executions", "show", id, "--all", "--outputs", "-o", "json")
	r.read(&now, "executions", "show", id, "-o", "json")
	e.Trigger, e.Outputs = now.Trigger, now.Outputs
	formerFailure(e.Error)
	events := map[string][]string{}
	out, err := r.run("executions", "events", id, "-o", "json")
	if err != nil {
		r.t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(out) {
		var event struct {
			Step   string `json:"step_id"`
			Type   string `json:"event_type"`
			Detail string `json:"detail"`
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			r.t.Fatal(err)
		}
		events[event.Step] = append(events[event.Step], strings.TrimSpace(event.Type+" "+event.Detail))
	}
	for i := range e.Steps {
		e.Steps[i].Events = events[e.Steps[i].Step]
		e.Steps[i].Outputs = timeless(e.Steps[i].Outputs)
		formerFailure(e.Steps[i].Error)
	}
	slices.SortStableFunc(e.Steps, func(a, b step) int { return strings.Compare(a.Step, b.Step) })
	return e
}

// formerFailure gives the step of a failure the name that it had.
func formerFailure(failure any) {
	if f, ok := failure.(map[string]any); ok && f["step_id"] != nil {
		f["step"] = f["step_id"]
		delete(f, "step_id")
	}
}

// timeless takes out what two runs of the same thing may differ in.
func timeless(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, member := range v {
			switch key {
			case "duration_seconds", "busy_seconds", "busy_ms", "waited_seconds", "until", "decided_at", "manifest", "started_at", "ended_at", "workflow_id",
				"summary", "items_in", "items_out", "items_skipped", "rows", "execution_time_seconds", "duration", "timestamp":
				delete(v, key)
			default:
				v[key] = timeless(member)
			}
		}
	case []any:
		for i := range v {
			v[i] = timeless(v[i])
		}
	}
	return v
}

// extract unpacks a .tar.gz with its times: a stream's source is told by them.
func extract(t *testing.T, archive, dir string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	plain, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(plain); ; {
		head, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(head.Name))
		if head.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			err = extractFile(files, path, head)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func extractFile(from io.Reader, path string, head *tar.Header) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, head.FileInfo().Mode().Perm())
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, from); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Chtimes(path, head.ModTime, head.ModTime)
}
