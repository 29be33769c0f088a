package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
)

// planned is something that happens during a test.
type planned struct {
	plannedKeys
	pos spec.Pos
}

// plannedKeys are the keys of an entry of when.
type plannedKeys struct {
	After time.Duration `json:"after" minimum:"0" doc:"How long after the start."`
	Step  string        `json:"step" doc:"The step that is waited for, and that a decision is for."`
	Is    string        `json:"is" doc:"The status of the step at which it happens."`
	For   time.Duration `json:"for" minimum:"0" doc:"How long after that."`

	RestartProcess bool          `json:"restart_process" doc:"The process dies and another one takes over."`
	Cancel         string        `json:"cancel" doc:"The execution is cancelled, for this reason."`
	Pause          bool          `json:"pause"`
	Resume         bool          `json:"resume"`
	Restart        string        `json:"restart" doc:"This step is restarted."`
	FailedOnly     bool          `json:"failed_only" doc:"With restart: only what did not complete inside the step."`
	Approve        *decisionKeys `json:"approve"`
	Reject         *decisionKeys `json:"reject"`
	Signal         *signalKeys   `json:"signal" aka:"event" doc:"An event, or another signal, comes."`
}

type decisionKeys struct {
	By      string `json:"by"`
	Comment string `json:"comment"`
}

type signalKeys struct {
	Event   string         `json:"event" doc:"The event of util.wait_for."`
	Key     string         `json:"key" doc:"The key of the signal, where it is no event."`
	ID      string         `json:"id" doc:"Marks repetitions."`
	Outputs map[string]any `json:"outputs"`
	Fail    string         `json:"fail" doc:"The step fails with this message."`
	Final   bool           `json:"permanent" doc:"With fail: no retry helps."`
	Skip    string         `json:"skip" doc:"The step is skipped for this reason."`
}

var states = func() (names []string) {
	for s := stepwell.StepPending; s <= stepwell.StepTimedOut; s++ {
		names = append(names, s.String())
	}
	return names
}()

// plans reads a list of entries.
func (d *decoder) plans(e spec.Entry, path string) (out []*planned) {
	path = spec.MemberPath(path, "when")
	if e.Value.Kind != spec.ListNode {
		d.Fail(e.At(), path, "when must be a list, not "+e.Value.Describe(), "write - {after: 2h, restart_process: true}")
		return nil
	}
	for i, n := range e.Value.Items {
		at := spec.ElementPath(path, i)
		p := &planned{pos: n.Pos}
		d.Struct(n, at, shapes.planned, &p.plannedKeys, func(e spec.Entry) bool {
			if e.Key == "is" {
				p.Is = d.Choice(e, at, states...)
			}
			return e.Key == "is"
		})
		if k := &p.plannedKeys; k.actions() != 1 {
			d.Fail(n.Pos, at, fmt.Sprintf("an entry of when does one thing, not %d", k.actions()),
				"keep one of restart_process, cancel, pause, resume, restart, approve, reject, signal")
		} else if k.FailedOnly && k.Restart == "" {
			d.Fail(n.Pos, at, "failed_only without a restart", "write restart: each, failed_only: true")
		} else if s := k.Signal; s != nil && s.Fail != "" && s.Skip != "" {
			d.Fail(n.Pos, at, "a signal fails or skips a step, not both", "keep one of fail and skip")
		} else if k.Is != "" && k.Step == "" {
			d.Fail(n.Pos, at, "is without a step", "name the step: step: ask")
		} else if k.Is != "" && k.After > 0 {
			d.Fail(n.Pos, at, "after counts from the start, and is does not", "write for: how long after that")
		}
		out = append(out, p)
	}
	return out
}

// actions counts what is to be done.
func (k *plannedKeys) actions() (n int) {
	for _, given := range []bool{k.RestartProcess, k.Cancel != "", k.Pause, k.Resume, k.Restart != "", k.Approve != nil, k.Reject != nil, k.Signal != nil} {
		if given {
			n++
		}
	}
	return n
}

// do does it.
func (p *planned) do(ctx context.Context, r *run) error {
	w := r.world
	switch {
	case p.RestartProcess:
		if err := r.forget(ctx, false); err != nil {
			return err
		}
		return w.Restart(ctx)
	case p.Cancel != "":
		return w.Cancel(ctx, r.id, p.Cancel)
	case p.Pause:
		return w.Pause(ctx, r.id)
	case p.Resume:
		return w.Resume(ctx, r.id)
	case p.Restart != "":
		return w.Conductor.Restart(ctx, r.id, p.Restart, p.FailedOnly)
	case p.Approve != nil:
		return p.decide(ctx, r, p.Approve, true)
	case p.Reject != nil:
		return p.decide(ctx, r, p.Reject, false)
	}
	key, body := p.Signal.Key, conductor.Answer{Error: p.Signal.Fail, Final: p.Signal.Final}
	if p.Signal.Event != "" {
		key = "event:" + p.Signal.Event
	}
	switch {
	case p.Signal.Skip != "":
		body.Status, body.Error = "skipped", p.Signal.Skip
	case p.Signal.Fail != "":
		body.Status = "failed"
	}
	raw, err := json.Marshal(p.Signal.Outputs)
	if err == nil && p.Signal.Outputs != nil {
		body.Outputs = raw
	}
	return errors.Join(err, p.send(ctx, r, key, body))
}

func (p *planned) send(ctx context.Context, r *run, key string, body conductor.Answer) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	id := fmt.Sprint("when:", p.pos.Line, ":", p.pos.Column)
	if p.Signal != nil && p.Signal.ID != "" {
		id = p.Signal.ID
	}
	r.sent[p] = store.Signal{Key: key, ID: id, Body: raw, At: r.world.Clock.Now()}
	_, _, err = r.world.Signal(ctx, r.sent[p])
	return err
}

// decide answers an approval: that of the step, or the only one that is asked for.
func (p *planned) decide(ctx context.Context, r *run, k *decisionKeys, approved bool) error {
	waiting, err := r.world.Awaiting(ctx, r.id)
	if err != nil {
		return err
	}
	var asked []engine.Await
	for _, a := range waiting {
		if strings.HasPrefix(a.External, conductor.ApprovalPrefix) && (p.Step == "" || matches(p.Step, a.Key, lastID(a.Key)) > 0) {
			asked = append(asked, a)
		}
	}
	if len(asked) != 1 {
		return stepwell.Invalid("name the step, and when it waits: {step: ask, is: waiting, approve: {by: anna}}", "%d steps wait for a decision then", len(asked))
	}
	outputs, err := json.Marshal(map[string]any{"approved": approved, "by": k.By, "comment": k.Comment, "decided_at": r.world.Clock.Now().UTC().Format(time.RFC3339Nano), "automatic": false})
	if err != nil {
		return err
	}
	return p.send(ctx, r, asked[0].External, conductor.Answer{Status: "completed", By: k.By, Outputs: outputs})
}

// lastID is the id of a step by its key, without what it is inside of and without its iteration.
func lastID(key string) string {
	key, _, _ = strings.Cut(plainKey(key), ":")
	return key[strings.LastIndexByte(key, '.')+1:]
}

// plainKey is a key without iterations: "each[3].in" is "each.in".
func plainKey(key string) string {
	var b strings.Builder
	depth := 0
	for _, c := range key {
		switch {
		case c == '[':
			depth++
		case c == ']' && depth > 0:
			depth--
		case depth == 0:
			b.WriteRune(c)
		}
	}
	return b.String()
}
