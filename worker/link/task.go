package link

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/desk/wire"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/worker"
)

type taskID struct {
	run   int64
	idx   int32
	epoch uint32
}

// task is an attempt that the worker holds, until its outcome is committed.
type task struct {
	*engine.Task
	id   wire.ID
	came time.Time

	listed   bool       // from a list, and its node has not been told
	talk     sync.Mutex // held while lines are on their way: the outcome comes after them
	lines    []wire.Line
	dropped  int
	progress *wire.Progress
	outcome  *wire.Outcome // nil: it runs
	size     int           // of outcome, in bytes
	pause    time.Duration // before it is offered again
}

func (t *task) key() taskID { return taskID{t.Run, t.Idx, t.Epoch} }

// maxLines is how many lines of an attempt wait to be sent.
const maxLines = 1000

// decode makes the task that a pool runs.
func decode(in *wire.Task) (*task, error) {
	execution, idx, err := wire.Split(in.StepID)
	if err != nil {
		return nil, err
	}
	step := &plan.Step{ID: in.StepName, Name: in.StepName, Action: in.Action, Policy: &plan.Policy{Timeout: time.Duration(in.TimeoutMS) * time.Millisecond,
		LogLevel: in.LogLevel, NotIdempotent: in.NotIdempotent}}
	t := &engine.Task{Run: in.ExecutionNo, Execution: execution, Pipeline: in.Pipeline, Idx: idx, Epoch: in.Epoch, Attempt: in.Attempt, Key: in.StepKey, Step: step, Dir: in.Dir}
	t.Params, t.State = in.Params, in.State // nil stays nil
	if in.Media != "" {
		t.About = plan.About{"lesson": map[string]any{"media": map[string]any{"path": in.Media}}}
	}
	if err := decodeMembers(in, t); err != nil {
		return nil, err
	}
	return &task{Task: t, id: in.ID}, nil
}

// holding lists what the worker holds, running attempts first.
func (w *Worker) holding() []wire.ID {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := []wire.ID{}
	for _, ended := range []bool{false, true} {
		for _, t := range w.held {
			if (t.outcome != nil) == ended {
				list = append(list, t.id)
			}
		}
	}
	return list[:min(len(list), wire.MaxHolding)]
}

// allHeld is what this member holds, and then what the others hold: the node of this one may have taken over the executions of
// theirs, also where another process answers at the address of a node that is gone.
func (w *Worker) allHeld() []wire.ID {
	list := w.holding()
	for _, x := range w.members.others(w) {
		list = append(list, x.holding()...)
	}
	return list[:min(len(list), wire.MaxHolding)]
}

// add takes tasks in. One that is here already came twice.
func (w *Worker) add(list []wire.Task) { w.addFrom(list, false) }

// addFrom is add; listed says that the tasks come from a list.
func (w *Worker) addFrom(list []wire.Task, listed bool) {
	tasks, now := make([]*task, 0, len(list)), time.Now()
	for i := range list {
		t, err := decode(&list[i])
		if err != nil {
			w.o.Log.Error("a task cannot be read", "step", list[i].StepID, "error", err)
			continue
		}
		t.came, t.listed = now, listed
		tasks = append(tasks, t)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range tasks {
		if w.held[t.key()] == nil {
			w.held[t.key()] = t
			w.serve(t)
		}
	}
}

// find returns a held attempt; with epoch 0 the latest of the step. Nil: there is none.
func (w *Worker) find(run int64, idx int32, epoch uint32) (found *task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if epoch > 0 {
		return w.held[taskID{run, idx, epoch}]
	}
	for k, t := range w.held {
		if k.run == run && (k.idx == idx || t.member(idx) != "") && t.outcome == nil && (found == nil || k.epoch > found.Epoch) {
			found = t
		}
	}
	return found
}

func notHeld() error {
	return stepwell.Errorf(stepwell.CodeConflict, "", "the attempt is no longer this worker's")
}

// line is worker.Options.Lines.
func (w *Worker) line(l store.LogLine) {
	t := w.find(l.Execution, l.Step, 0)
	w.mu.Lock()
	defer w.mu.Unlock()
	if t == nil {
		t = w.stops(l.Execution, l.Step)
	}
	if t == nil {
		return
	}
	if len(t.lines) >= maxLines {
		t.dropped++
		return
	}
	t.lines = append(t.lines, wire.Line{Level: l.Level, Message: l.Message, Attrs: l.Attrs, Member: t.member(l.Step)})
}

// progress is worker.Options.Progress.
func (w *Worker) progress(run int64, idx int32, p worker.Progress) {
	t := w.find(run, idx, 0)
	if t == nil || p.Fraction < 0 && len(t.Members) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if id := t.member(idx); id != "" {
		t.progressOf(w.name(), id, p)
		return
	}
	t.progress = &wire.Progress{Worker: w.name(), Epoch: t.Epoch, Fraction: p.Fraction, Note: p.Note}
}

// takeLines takes the lines of an attempt that are to be sent. The caller holds the lock.
func (t *task) takeLines() []wire.Line {
	lines := t.lines
	if t.dropped > 0 {
		lines = append(lines, wire.Line{Level: "warning", Message: strconv.Itoa(t.dropped) + " lines were left out, because they came faster than they could be sent"})
	}
	t.lines, t.dropped = nil, 0
	return lines
}

// outcomeOf turns the pool's report into a document.
func (w *Worker) outcomeOf(t *task, ev *engine.Event) *wire.Outcome {
	o := &wire.Outcome{ID: t.id, RanMS: float64(max(0, ev.At-ev.Started)) / 1000, Resources: ev.Resources}
	if ev.Failure != nil {
		o.Error = &wire.Error{Code: ev.Failure.Code, Message: ev.Failure.Message, Hint: ev.Failure.Hint}
	}
	switch ev.Kind {
	case engine.Done:
		o.Status, o.Output = wire.Completed, w.output(ev.Output)
	case engine.DoneAll:
		o.Status = wire.Completed
		w.addMembers(o, t, ev)
	case engine.Skipped:
		o.Status, o.Error = wire.Skipped, &wire.Error{Message: ev.Reason}
	case engine.Waiting:
		o.Status, o.Wait = wire.Waiting, w.wait(ev)
	default:
		o.Status, o.Permanent, o.Defer, o.Output = wire.Failed, ev.Permanent, ev.Defer, ev.Output
		o.RetryAfterMS = int64((ev.After + time.Millisecond - 1) / time.Millisecond)
		w.addMembers(o, t, ev)
	}
	return o
}

func (w *Worker) wait(ev *engine.Event) *wire.Wait {
	x := ev.Wait
	out := &wire.Wait{Resume: x.Resume, State: x.State, Output: w.output(x.Output), Require: x.Require, External: x.External}
	out.Await, out.Elsewhere = x.Await, x.Elsewhere
	if x.Until > 0 {
		out.AfterMS = max(1, (x.Until-ev.At+999)/1000)
	}
	return out
}

// output is the JSON of outputs, which a large one's blob holds.
func (w *Worker) output(raw []byte) json.RawMessage {
	if !engine.IsRef(raw) {
		return raw
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	value := w.blobs[string(raw)]
	delete(w.blobs, string(raw))
	return value
}

func (w *Worker) putBlob(value []byte) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.blob++
	ref := "@" + strconv.Itoa(w.blob)
	w.blobs[ref] = slices.Clone(value)
	return ref
}

// size is about the size of an outcome as JSON.
func size(o *wire.Outcome) int {
	n := 300 + len(o.Output)
	if o.Error != nil {
		n += len(o.Error.Message) + len(o.Error.Hint)
	}
	if o.Wait != nil {
		n += len(o.Wait.State) + len(o.Wait.Output)
	}
	for i := range o.Members {
		n += 200 + len(o.Members[i].Output)
	}
	for i := range o.Log {
		n += 50 + len(o.Log[i].Message) + len(o.Log[i].Attrs)
	}
	return n
}

// spawned is a step as the node completes it.
func spawned(s *engine.Spawn) wire.NewStep {
	n := wire.NewStep{DependsOn: append([]string{}, s.DependsOn...), Params: s.Params, TimeoutSeconds: s.Timeout.Seconds()}
	n.Name, n.Key, n.Action = s.Name, strings.TrimPrefix(strings.TrimPrefix(s.Key, s.Name), ":"), s.Action
	if s.Retry != (stepwell.Retry{}) {
		n.Retry = &s.Retry
	}
	if s.Continue {
		n.OnFailure = "continue"
	}
	return n
}
