package conductor

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/store"
)

// Answer is the body of a signal: how the step ends that awaits it.
type Answer struct {
	Status  string          `json:"status,omitempty"`  // completed, failed or skipped. Defaults to completed
	Outputs json.RawMessage `json:"outputs,omitempty"` // of a completed step: an object. Defaults to none
	Error   string          `json:"error,omitempty"`   // why, of a failed or skipped step
	By      string          `json:"by,omitempty"`      // the answering person
	Code    stepwell.Code   `json:"code,omitempty"`    // the kind of the failure. Defaults to failed
	Hint    string          `json:"hint,omitempty"`    // the remedy for a failure
	Final   bool            `json:"final,omitempty"`   // no retry will help a failed step
}

// answerCodes are the kinds of failures that an answer may name.
var answerCodes = []stepwell.Code{"", stepwell.CodeFailed, stepwell.CodeInvalid, stepwell.CodeTimeout, stepwell.CodeUnavailable, stepwell.CodeDenied, stepwell.CodeConflict, stepwell.CodeNotFound,
	stepwell.CodeLimit}

// Limits in bytes, the same as for a handler's results.
const (
	maxAnswer    = 16 << 20
	inlineAnswer = 64 << 10
	maxReason    = 16 << 10
)

// decodeAnswer reads a signal, in which secrets are sealed.
func (c *Conductor) decodeAnswer(s store.Signal) (a Answer, err error) {
	invalid := func(format string, args ...any) error {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "body of the signal: " + fmt.Sprintf(format, args...),
			Hint: `write {"status": "completed", "outputs": {…}}`}
	}
	if len(s.Body) > 0 {
		if err := json.Unmarshal(s.Body, &a); err != nil {
			return a, invalid("%v", err)
		}
	}
	switch a.Status {
	case "":
		a.Status = "completed"
	case "completed", "failed", "skipped":
	default:
		return a, invalid("status is %q, not completed, failed or skipped", c.o.Secrets.Text("", a.Status))
	}
	if text := strings.TrimSpace(string(a.Outputs)); text == "" || text == "null" {
		a.Outputs = nil
	} else {
		a.Outputs = json.RawMessage(text)
		if text[0] != '{' {
			return a, invalid("outputs is not an object")
		}
		if _, err := expr.Decode(a.Outputs); err != nil { // never store unreadable outputs
			return a, invalid("outputs: %v", err)
		}
	}
	if !slices.Contains(answerCodes, a.Code) {
		return a, invalid("code is %q, none of those of a failure", c.o.Secrets.Text("", string(a.Code)))
	}
	a.Error, a.By, a.Hint = stepwell.Head(c.o.Secrets.Text("", a.Error), maxReason), stepwell.Head(c.o.Secrets.Text("", a.By), 200), stepwell.Head(c.o.Secrets.Text("", a.Hint), maxReason)
	return a, nil
}

// answerEvent turns a signal into the event for a step that awaits it. Secrets of the execution are sealed too.
func (c *Conductor) answerEvent(a Answer, execution string, w *engine.Await) (engine.Event, error) {
	hide := func(text string) string { return c.o.Secrets.Text(execution, text) }
	a.Error, a.By, a.Hint = hide(a.Error), hide(a.By), hide(a.Hint)
	if len(a.Outputs) > 0 {
		var err error
		if a.Outputs, err = c.o.Secrets.Reseal(execution, a.Outputs); err != nil {
			return engine.Event{}, err
		}
	}
	ev := engine.Event{Kind: engine.Settled, At: c.now(), Idx: w.Idx, Epoch: w.Epoch, Worker: a.By}
	if ev.Worker == "" {
		ev.Worker = "signal"
	}
	switch {
	case a.Status == "failed":
		ev.Failure, ev.Permanent = &engine.Failure{Code: cmp.Or(a.Code, stepwell.CodeFailed), Message: or(a.Error, "the signal says that it failed"), Hint: a.Hint}, a.Final
	case a.Status == "skipped":
		ev.Reason = or(a.Error, "the signal says so")
	case w.Require != "" && !a.holds(w.Require):
		ev.Failure, ev.Permanent = a.refusal(hide), true
	case len(a.Outputs) <= inlineAnswer:
		ev.Output = a.Outputs
	default:
		ref, err := c.putBlob(a.Outputs)
		if err != nil {
			return ev, fmt.Errorf("store the outputs: %w", err)
		}
		ev.Output, ev.Loaded = []byte(ref), a.Outputs
	}
	if c.o.Price != nil && len(a.Outputs) > 0 { // the call has been paid when the wait began
		s := c.o.Price(w.Action, 0, time.Time{}, a.Outputs)
		ev.Cost, ev.Usage = max(0, s.Cost), s.Usage
	}
	return ev, nil
}

// holds reports whether an output is true.
func (a *Answer) holds(name string) bool {
	var outputs map[string]json.RawMessage
	return len(a.Outputs) > 0 && json.Unmarshal(a.Outputs, &outputs) == nil && string(outputs[name]) == "true"
}

// refusal is the failure of a step that needed a yes.
func (a *Answer) refusal(hide func(string) string) *engine.Failure {
	var said struct {
		By      string `json:"by"`
		Comment string `json:"comment"`
	}
	if len(a.Outputs) > 0 && json.Unmarshal(a.Outputs, &said) != nil {
		said.By, said.Comment = "", "" // of other types: they are no names
	}
	f := &engine.Failure{Code: stepwell.CodeFailed, Message: "rejected"}
	if by := or(a.By, said.By); by != "" {
		f.Message += " by " + stepwell.Head(hide(by), 200)
	}
	if comment := or(said.Comment, a.Error); comment != "" {
		f.Message += ": " + stepwell.Head(hide(comment), maxReason)
	}
	return f
}

func or(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}
