package scenario

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

// Recording is an execution that a test is made of. Its texts and values have no secrets any more.
type Recording struct {
	ID, Pipeline, File, Status string
	Created, Started, Ended    time.Time
	Priority                   int
	Params, Outputs            json.RawMessage
	Cancelled                  string // the reason; "": it was not
	CancelledAt                time.Time
	Steps                      []RecordedStep
}

// RecordedStep is a step with what came of its attempts.
type RecordedStep struct {
	Key, Action, Status string
	Attempts            int
	Params, Outputs     json.RawMessage
	Code, Error         string
	Queued              time.Time // for the last attempt, as Started
	Started, Ended      time.Time
	Tries               []Try    // attempts that failed before the last one
	Spawned             []string // keys of steps that it has added
	Items               bool     // it is a stream's
	Waited              bool     // for a time, or for something outside
	Cost                int64    // of all its attempts, in the unit of an execution's
}

// Try is an attempt that failed and was followed by another one.
type Try struct {
	Error string
	Took  time.Duration
	Lost  bool // its worker was lost
}

// maxInline is up to how many bytes outputs are written into the test itself.
const maxInline = 16 << 10

// WriteTest writes a test file that plays the execution again: its outcomes are the mocks, and what came of it is expected. Outputs of a step of
// more than 16 KiB are given to apart, which returns the file that will have them, relative to the test; nil: they are written into the test.
func (r *Recording) WriteTest(w io.Writer, actions *action.Registry, apart func(step string, outputs json.RawMessage) (file string)) error {
	b := &bytes.Buffer{}
	fmt.Fprintf(b, "# Recorded from execution %s. Secrets are left out: where a value is ***, write what the test needs.\n", r.ID)
	fmt.Fprintf(b, "pipeline: %s\nat: %s\n", quoted(r.File), r.Created.UTC().Format(time.RFC3339))
	if len(r.Params) > 0 && string(r.Params) != "null" && string(r.Params) != "{}" {
		fmt.Fprintf(b, "params: %s\n", r.Params)
	}
	streams := false
	mocks := &bytes.Buffer{}
	around := r.around()
	for i := range r.Steps {
		s := &r.Steps[i]
		streams = streams || s.Items
		act, effect := s.Action, spec.AnyEffect
		if about, ok := actions.Spec(act); ok {
			act, effect = about.Name, about.Effect
		}
		if effect == spec.NoEffect || act == reportAction || around[s.Key] {
			continue
		}
		if list := s.outcomes(r, apart); len(list) > 0 {
			fmt.Fprintf(mocks, "  %s:\n    - %s\n", quoted(s.Key), strings.Join(list, "\n    - "))
		}
	}
	if streams {
		fmt.Fprintln(b, "# Items of streams are not recorded: write items: and the mocks of sources and sinks.")
	}
	if mocks.Len() > 0 {
		fmt.Fprintf(b, "mock:\n%s", mocks)
	}
	fmt.Fprintf(b, "tests:\n  - name: as in execution %s\n", r.ID)
	if when := r.when(actions); len(when) > 0 {
		fmt.Fprintf(b, "    when:\n      - %s\n", strings.Join(when, "\n      - "))
	}
	fmt.Fprintf(b, "    expect:\n      status: %s\n", r.Status)
	if len(r.Outputs) > 0 && string(r.Outputs) != "null" {
		fmt.Fprintf(b, "      outputs: %s\n", r.Outputs)
	}
	fmt.Fprintln(b, "      steps:")
	for _, s := range r.Steps {
		if s.Action != "" {
			fmt.Fprintf(b, "        %s: {status: %s, attempts: %d}\n", quoted(s.Key), s.Status, s.Attempts)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// when are the entries of what happened from outside.
func (r *Recording) when(actions *action.Registry) (list []string) {
	for i := range r.Steps {
		s, act := &r.Steps[i], r.Steps[i].Action
		if about, ok := actions.Spec(act); ok {
			act = about.Name
		}
		if entry := s.answered(act); entry != "" {
			list = append(list, entry)
		}
	}
	if r.Cancelled != "" {
		list = append(list, fmt.Sprintf("{after: %s, cancel: %s}", r.CancelledAt.Sub(r.Created).Round(time.Millisecond), quoted(r.Cancelled)))
	}
	return list
}

// around are the steps that have iterations. Those of groups have no action; ids may have dots.
func (r *Recording) around() map[string]bool {
	out := map[string]bool{}
	for i := range r.Steps {
		key := r.Steps[i].Key
		for j := range key {
			if key[j] == '[' {
				out[key[:j]] = true
			}
		}
	}
	return out
}

// quoted is a text for YAML.
func quoted(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		return fmt.Sprintf("%q", text)
	}
	return string(raw)
}

// answered is the entry of when that answers a step as it was answered.
func (s *RecordedStep) answered(act string) string {
	if act != "util.approval" && act != "util.wait_for" || s.Status != "completed" && s.Status != "failed" || s.Started.IsZero() {
		return ""
	}
	waited := s.Ended.Sub(s.Started).Round(time.Millisecond)
	begin := fmt.Sprintf("{step: %s, is: waiting, for: %s, ", quoted(s.Key), max(waited, 0))
	if act == "util.wait_for" {
		var p struct {
			Event string `json:"event"`
		}
		if json.Unmarshal(s.Params, &p) != nil || p.Event == "" || s.Status != "completed" {
			return ""
		}
		return begin + fmt.Sprintf("signal: {event: %s, outputs: %s}}", quoted(p.Event), object(s.Outputs))
	}
	var d struct {
		Approved  bool   `json:"approved"`
		By        string `json:"by"`
		Comment   string `json:"comment"`
		Automatic bool   `json:"automatic"`
	}
	if len(s.Outputs) > 0 && json.Unmarshal(s.Outputs, &d) != nil || d.Automatic {
		return ""
	}
	if by, ok := strings.CutPrefix(s.Error, "rejected by "); ok {
		d.By, d.Comment, _ = strings.Cut(by, ": ")
	} else if s.Status == "failed" {
		return "" // its time was over
	}
	verb := "reject"
	if d.Approved {
		verb = "approve"
	}
	return begin + fmt.Sprintf("%s: {by: %s, comment: %s}}", verb, quoted(d.By), quoted(d.Comment))
}

func object(raw json.RawMessage) string {
	if len(raw) == 0 || string(raw) == "null" {
		return "{}"
	}
	return strings.ReplaceAll(string(raw), "{{", "{{ '{{' }}") // what looks like a template is text here
}

// outcomes are the entries of a step's mock, none where it did not run.
func (s *RecordedStep) outcomes(r *Recording, apart func(string, json.RawMessage) string) (out []string) {
	if s.Action == "" || s.Items {
		return nil
	}
	for _, t := range s.Tries {
		if t.Lost {
			out = append(out, "{lose_worker: true"+takes(t.Took)+"}")
			continue
		}
		out = append(out, "{fail: "+quoted(cmp.Or(t.Error, "failed"))+takes(t.Took)+"}")
	}
	took := takes(s.Ended.Sub(s.Started))
	switch s.Status {
	case "completed":
		outputs := "outputs: "
		if len(s.Outputs) > maxInline && apart != nil {
			outputs = "outputs_from: " + quoted(apart(s.Key, s.Outputs))
		} else {
			outputs += object(s.Outputs)
		}
		out = append(out, "{"+outputs+took+s.spawns(r)+"}")
	case "failed":
		out = append(out, "{fail: "+quoted(cmp.Or(s.Error, "failed"))+", code: "+cmp.Or(s.Code, "failed")+", permanent: true"+took+"}")
	case "timed_out", "cancelled":
		if !s.Started.IsZero() {
			out = append(out, "{hang: true}")
		}
	}
	return out
}

func takes(d time.Duration) string {
	if d <= 0 || d > math.MaxInt64/2 {
		return ""
	}
	return ", takes: " + d.Round(time.Millisecond).String()
}

// spawns are the steps that a step has added.
func (s *RecordedStep) spawns(r *Recording) string {
	var list []string
	for _, key := range s.Spawned {
		i := slices.IndexFunc(r.Steps, func(x RecordedStep) bool { return x.Key == key })
		if i < 0 {
			continue
		}
		name, id, _ := strings.Cut(key, ":")
		list = append(list, fmt.Sprintf("{name: %s, key: %s, action: %s, params: %s}", quoted(name), quoted(id), r.Steps[i].Action, object(r.Steps[i].Params)))
	}
	if len(list) == 0 {
		return ""
	}
	return ", spawn: [" + strings.Join(list, ", ") + "]"
}
