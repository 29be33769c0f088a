package scenario

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/sim"
	"github.com/stepwell/stepwell/spec"
)

// mock says how the attempts of some steps end.
type mock struct {
	name     string // as it is written
	action   string // of `action NAME`
	pos      spec.Pos
	outcomes []*outcome
}

// reads reports whether outputs of the mock are in a file.
func (m *mock) reads() bool {
	return slices.ContainsFunc(m.outcomes, func(o *outcome) bool { return o.From != "" })
}

// outcome is one entry of a mock.
type outcome struct {
	outcomeKeys
	pos     spec.Pos
	outputs *spec.Node                    // nil: none
	plain   func() (map[string]any, bool) // outputs, if they have no templates; made once
	given   map[string]any                // outputs that were recorded, instead: they have no templates, and were checked
	when    *expr.Template
	until   time.Time                      // of a wait
	load    func() (map[string]any, error) // of From
	checked sync.Map                       // actions whose outputs these could be
}

// outcomeKeys are the keys of an outcome.
type outcomeKeys struct {
	Outputs    any              `json:"outputs" doc:"The step's outputs. Templates read call.params, call.attempt, call.key and row."`
	From       string           `json:"outputs_from" doc:"A JSON file with the step's outputs, relative to the test file, at most 16 MiB. It has no templates."`
	Fail       string           `json:"fail" aka:"error" doc:"The attempt fails with this message."`
	Code       stepwell.Code    `json:"code" doc:"The code of the failure."`
	Hint       string           `json:"hint"`
	Permanent  bool             `json:"permanent" doc:"No retry helps."`
	RetryAfter time.Duration    `json:"retry_after" minimum:"0" doc:"The next attempt starts no earlier."`
	Skip       string           `json:"skip" doc:"The action skips the step for this reason."`
	Defer      time.Duration    `json:"defer" minimum:"0" doc:"The attempt is put back for so long and does not count: a rate limit."`
	Wait       *waitKeys        `json:"wait" doc:"The step waits and holds no worker."`
	Spawn      []action.NewStep `json:"spawn" doc:"Steps that the attempt adds."`
	Panic      string           `json:"panic" doc:"The action panics."`
	Hang       bool             `json:"hang" doc:"The attempt does not end by itself."`
	Deaf       bool             `json:"ignores_stop" doc:"It ends as it says although it is asked to stop."`
	LoseWorker bool             `json:"lose_worker" doc:"The worker is lost instead of reporting the end."`
	Takes      time.Duration    `json:"takes" minimum:"0" doc:"From its begin to its end."`
	Times      int              `json:"times" minimum:"1" doc:"How many attempts end so, before the next entry counts."`
	Cost       float64          `json:"cost" minimum:"0" doc:"What the attempt costs, in units of money."`
	Logs       []string         `json:"logs" doc:"Lines for the step's log."`
	When       string           `json:"when" doc:"An expression; the entry counts only where it is true."`
}

type waitKeys struct {
	For     time.Duration  `json:"for" minimum:"0" doc:"How long."`
	Until   string         `json:"until" doc:"Until when, RFC 3339."`
	Signal  string         `json:"signal" aka:"event,key" doc:"The key of the signal that ends the wait."`
	Outputs map[string]any `json:"outputs" doc:"The outputs when the time comes."`
	Again   bool           `json:"again" aka:"resume" doc:"The action runs again when the time comes."`
}

// mocks reads a mapping of steps to outcomes.
func (d *decoder) mocks(e spec.Entry) (out []*mock) {
	if e.Value.Kind != spec.MapNode {
		d.Fail(e.At(), "mock", "mock must be a mapping of steps to outcomes, not "+e.Value.Describe(), "write mock: {fetch: {outputs: {…}}}")
		return nil
	}
	for _, inner := range e.Value.Entries {
		m := &mock{name: inner.Key, pos: inner.Pos}
		if name, ok := strings.CutPrefix(inner.Key, "action "); ok {
			m.action = strings.TrimSpace(name)
		}
		list, path := []*spec.Node{inner.Value}, spec.MemberPath("mock", inner.Key)
		if inner.Value.Kind == spec.ListNode {
			list = inner.Value.Items
		}
		for _, n := range list {
			m.outcomes = append(m.outcomes, d.outcome(n, path))
		}
		if len(list) == 0 {
			d.Fail(inner.At(), path, "the mock has no outcome", "")
		}
		out = append(out, m)
	}
	return out
}

func (d *decoder) outcome(n *spec.Node, path string) *outcome {
	o := &outcome{pos: n.Pos}
	o.plain = sync.OnceValues(o.untemplated)
	d.Struct(n, path, shapes.outcome, &o.outcomeKeys, func(e spec.Entry) bool {
		switch e.Key {
		case "outputs":
			if e.Value.Kind == spec.MapNode {
				o.outputs = e.Value
				d.templates(e.Value, spec.MemberPath(path, "outputs"))
			} else if !e.Value.IsNull() && !strings.Contains(e.Value.Text, "{{") {
				d.Fail(e.At(), path, "outputs must be an object, not "+e.Value.Describe(), "")
			} else if !e.Value.IsNull() {
				o.outputs = e.Value
			}
		case "outputs_from":
			o.load = outputsIn(filepath.Join(filepath.Dir(d.file), filepath.FromSlash(e.Value.Text)))
			return false
		case "when":
			o.when = d.condition(e.Value, spec.MemberPath(path, "when"))
		default:
			return false
		}
		return true
	})
	var ends []string
	for what, given := range map[string]bool{"fail": o.Fail != "", "skip": o.Skip != "", "defer": o.Defer > 0, "wait": o.Wait != nil, "panic": o.Panic != "", "hang": o.Hang} {
		if given {
			ends = append(ends, what)
		}
	}
	if o.outputs != nil {
		ends = append(ends, "outputs")
	}
	if o.From != "" {
		ends = append(ends, "outputs_from")
	}
	if len(ends) > 1 {
		d.Fail(n.Pos, path, "an attempt ends in one way, not in "+fmt.Sprint(len(ends)), "keep one of outputs, outputs_from, fail, skip, defer, wait, panic, hang")
	}
	if o.Wait != nil {
		o.until = d.time(n.Lookup("wait"), spec.MemberPath(path, "wait"), o.Wait.Until, "until")
	}
	return o
}

// matches reports whether a name of a mock, or of calls, means a step; how well: 3 its key, 2 a pattern, 1 its id, 0 not at all.
func matches(name, key, id string) int {
	switch {
	case name == key:
		return 3
	case strings.Contains(name, "*") && fits(name, key):
		return 2
	case name == id:
		return 1
	}
	return 0
}

// fits reports whether a key has the form of a pattern, in which * stands for any text.
func fits(pattern, key string) bool {
	parts := strings.Split(pattern, "*")
	if !strings.HasPrefix(key, parts[0]) {
		return false
	}
	key = key[len(parts[0]):]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(key, part)
		if i < 0 {
			return false
		}
		key = key[i+len(part):]
	}
	return strings.HasSuffix(key, parts[len(parts)-1])
}

// find is the mock of a step: the one that names it best, of the test before that of its file.
func (t *Test) find(key, id, act string, same func(a, b string) bool) *mock {
	for _, list := range [][]*mock{t.own, t.shared} {
		var best *mock
		most := 0
		for _, m := range list {
			if how := matches(m.name, key, id); m.action == "" && how > most {
				best, most = m, how
			}
		}
		for _, m := range list {
			if best == nil && m.action != "" && same(m.action, act) {
				best = m
			}
		}
		if best != nil {
			return best
		}
	}
	return nil
}

// next is the outcome of a call: n counts the calls of the step before it. Entries whose `when` is false are left out. repeated says
// that the last entry counts beyond its `times`.
func (m *mock) next(n int, scope expr.Scope) (o *outcome, repeated bool, err error) {
	var last *outcome
	for _, o := range m.outcomes {
		if o.when != nil {
			holds, err := o.when.EvalBool(scope, expr.Limits{})
			if err != nil {
				return nil, false, &placedError{o.pos, err}
			}
			if !holds {
				continue
			}
		}
		last = o
		if n -= max(o.Times, 1); n < 0 {
			return o, false, nil
		}
	}
	return last, true, nil
}

// outputsIn reads a file of outputs when they are first asked for.
func outputsIn(file string) func() (map[string]any, error) {
	return sync.OnceValues(func() (map[string]any, error) {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("outputs_from: %w", err)
		}
		defer f.Close()
		raw, err := io.ReadAll(io.LimitReader(f, maxOutputs+1))
		if err == nil && len(raw) > maxOutputs {
			err = stepwell.Errorf(stepwell.CodeLimit, "", "%s is larger than %d MiB", filepath.Base(file), maxOutputs>>20)
		}
		if err != nil {
			return nil, fmt.Errorf("outputs_from: %w", err)
		}
		v, err := expr.Decode(raw)
		if err != nil {
			return nil, fmt.Errorf("outputs_from: %s: %w", filepath.Base(file), err)
		}
		m, ok := v.(map[string]any)
		if !ok {
			return nil, stepwell.Invalid("write a JSON object", "outputs_from: %s holds %T, no object", filepath.Base(file), v)
		}
		return m, nil
	})
}

// maxOutputs bounds a file of outputs.
const maxOutputs = 16 << 20

// placedError is an error at a place of the test file.
type placedError struct {
	pos spec.Pos
	err error
}

func (e *placedError) Error() string { return e.err.Error() }
func (e *placedError) Unwrap() error { return e.err }

// play is what an outcome means for an attempt. A wait after which the action runs again completes if it is repeated.
func (o *outcome) play(a *sim.Attempt, repeated bool, scope expr.Scope) (*sim.Outcome, error) {
	out := &sim.Outcome{Takes: o.Takes, Hang: o.Hang, Lost: o.LoseWorker, Logs: o.Logs, Spawn: o.Spawn, Deaf: o.Deaf, Cost: int64(math.Round(o.Cost * 1e6))}
	switch {
	case o.Fail != "" || o.Panic != "":
		code, message := o.Code, o.Fail
		if o.Panic != "" {
			code, message = stepwell.CodePanic, "the action panicked: "+o.Panic
		}
		var err error = &stepwell.Error{Code: code, Message: message, Hint: o.Hint}
		if code == "" {
			err = errors.New(message)
		}
		switch {
		case o.Permanent:
			err = action.Fail(err)
		case o.RetryAfter > 0:
			err = action.Retry(o.RetryAfter, err)
		}
		out.Err = err
	case o.Skip != "":
		out.Err = action.Skip(o.Skip)
	case o.Defer > 0:
		out.Err = action.Defer(o.Defer, errors.New("put back by the mock"))
	case o.Wait != nil && !(o.Wait.Again && repeated && len(a.State) > 0):
		out.Err = o.wait(a)
	case o.given != nil:
		out.Outputs = o.given
	case o.From != "":
		m, err := o.load()
		if err != nil {
			return nil, &placedError{o.pos, err}
		}
		out.Outputs = m
	case o.outputs != nil:
		if m, ok := o.plain(); ok {
			out.Outputs = m
			break
		}
		v, at, err := valueOf(o.outputs, scope)
		if err != nil {
			return nil, &placedError{at, err}
		}
		m, ok := v.(map[string]any)
		if !ok {
			return nil, &placedError{o.outputs.Pos, fmt.Errorf("outputs must be an object, not %T", v)}
		}
		out.Outputs = m
	}
	return out, nil
}

// untemplated are outputs that are the same for each call; false: they are not, or are no object.
func (o *outcome) untemplated() (map[string]any, bool) {
	if o.outputs.Kind != spec.MapNode || templated(o.outputs) {
		return nil, false
	}
	v, _, err := valueOf(o.outputs, nil)
	m, ok := v.(map[string]any)
	return m, ok && err == nil
}

// templated reports whether a node has a template.
func templated(n *spec.Node) bool {
	return strings.Contains(n.Text, "{{") || slices.ContainsFunc(n.Items, templated) ||
		slices.ContainsFunc(n.Entries, func(e spec.Entry) bool { return templated(e.Value) })
}

func (o *outcome) wait(a *sim.Attempt) error {
	w := &action.WaitError{Until: o.until, Await: o.Wait.Signal != "", ExternalID: o.Wait.Signal, Resume: o.Wait.Again}
	if o.Wait.For > 0 {
		w.Until = a.Started.Add(o.Takes + o.Wait.For)
	}
	if o.Wait.Again {
		w.State = []byte("{}")
	}
	if o.Wait.Outputs != nil {
		w.Outputs = o.Wait.Outputs
	}
	return w
}
