package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/dapr/durabletask-go/api/protos"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/plan"
)

// timer has the engine called at a time.
func (f *hosted) timer(t engine.Timer) {
	a := f.action(&underway{timer: &t})
	a.OrchestratorActionType = &protos.OrchestratorAction_CreateTimer{CreateTimer: &protos.CreateTimerAction{FireAt: timestamppb.New(time.UnixMicro(t.At))}}
}

// action adds an action that an event will name.
func (f *hosted) action(u *underway) *protos.OrchestratorAction {
	a := &protos.OrchestratorAction{Id: f.next, Router: f.router}
	f.open[f.next] = u
	f.next++
	if u.timer == nil {
		f.busy++
	}
	f.actions = append(f.actions, a)
	return a
}

func (f *hosted) close(id int32) *underway {
	u := f.open[id]
	if u == nil {
		return nil // it has ended before
	}
	delete(f.open, id)
	if u.timer == nil {
		f.busy--
	}
	switch {
	case u.child:
		f.bundles--
	case u.batch:
		f.batches--
	case len(u.tasks) == 1:
		f.paceOf(u.tasks[0]).begun--
	}
	return u
}

// schedule adds an activity. Its input is what the same state always gives, so that a replay need not make it.
func (f *hosted) schedule(name string, input any, u *underway) {
	a := f.action(u)
	task := &protos.ScheduleTaskAction{Name: name, Router: f.router}
	if !f.replays {
		task.Input = wrapperspb.String(jsonOf(input))
	}
	a.OrchestratorActionType = &protos.OrchestratorAction_ScheduleTask{ScheduleTask: task}
}

// jsonOf is for structs that always can be written.
func jsonOf(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "null"
	}
	return string(raw)
}

// full reports whether the history has grown so that nothing is begun before the workflow continues as new.
func (f *hosted) full() bool {
	return (f.ended >= drainAfter || f.bytes >= maxHistory) && !f.suspended && !f.terminated
}

// pace is how fast the attempts of a step are: iterations of a loop are attempts of one step.
type pace struct {
	begun int // activities of one attempt that have not ended
	batch int // attempts that one activity may run; 0: no attempt has ended yet
	bytes int // of the largest attempt
}

// learn takes in how an attempt went. Fast attempts share activities more and more, those of up to a second a little, slow ones not at all: an
// activity ends with its slowest attempt.
func (p *pace) learn(o *outcome, fast time.Duration) {
	p.bytes = max(p.bytes, o.Size)
	switch took := time.Duration(o.Took) * time.Microsecond; {
	case took < fast:
		p.batch = min(2*max(1, p.batch), maxBatch)
	case took < 4*fast:
		p.batch = smallBatch
	default:
		p.batch = 1
	}
}

// most is how many of a number of attempts one activity runs.
func (p *pace) most(ready int) int {
	n := min(p.batch, (ready+maxBatches-1)/maxBatches)
	if p.bytes > 0 {
		n = min(n, maxBatchBytes/p.bytes)
	}
	return max(n, 1)
}

func (f *hosted) paceOf(t *engine.Task) *pace {
	p := f.paces[t.Step]
	if p == nil {
		p = &pace{}
		f.paces[t.Step] = p
	}
	return p
}

// dispatch schedules the steps that are ready.
func (f *hosted) dispatch() {
	if f.run == nil || f.verdict != nil {
		return
	}
	for _, t := range f.stops {
		f.schedule(stopActivity, f.call(t), &underway{stop: true})
	}
	f.stops = nil
	if f.renew() || f.full() {
		return
	}
	steps, ready := bySteps(f.ready)
	var single []*engine.Task
	f.ready = nil
	for _, step := range steps {
		tasks := ready[step]
		switch p := f.paceOf(tasks[0]); {
		case p.batch == 0: // the first show how long the others take
			n := min(len(tasks), max(0, maxFirst-p.begun))
			single, tasks = append(single, tasks[:n]...), tasks[n:]
		case p.most(len(tasks)) == 1:
			single, tasks = append(single, tasks...), nil
		default:
			for len(tasks) > 0 && f.batches < maxBatches {
				n := min(p.most(len(ready[step])), len(tasks))
				f.batch(tasks[:n:n])
				tasks = tasks[n:]
			}
		}
		f.ready = append(f.ready, tasks...)
	}
	f.ready = append(f.ready, f.singles(single)...)
}

// bySteps groups tasks by their steps, in order.
func bySteps(tasks []*engine.Task) (steps []*plan.Step, of map[*plan.Step][]*engine.Task) {
	of = map[*plan.Step][]*engine.Task{}
	for _, t := range tasks {
		if of[t.Step] == nil {
			steps = append(steps, t.Step)
		}
		of[t.Step] = append(of[t.Step], t)
	}
	return steps, of
}

// singles schedules each of some tasks as an activity of its own, or many of them in children. It returns those that must wait.
func (f *hosted) singles(ready []*engine.Task) []*engine.Task {
	for direct := f.busy - f.bundles - f.batches; len(ready) > 0; {
		switch {
		case len(ready) > maxDirect && f.bundles < maxBundles:
			f.child(slices.Clone(ready[:maxBundle]))
			ready = ready[maxBundle:]
		case len(ready) > maxDirect || direct >= maxDirect:
			return ready
		default:
			f.paceOf(ready[0]).begun++
			f.schedule(stepActivity, f.call(ready[0]), &underway{tasks: ready[:1:1]})
			ready = ready[1:]
			direct++
		}
	}
	return nil
}

// batch has one activity run some attempts. It returns those that it has not begun within batchTime.
func (f *hosted) batch(tasks []*engine.Task) {
	f.batches++
	f.schedule(batchActivity, f.calls(tasks), &underway{tasks: tasks, batch: true})
}

// calls are the inputs of attempts that travel together; nil in a replay.
func (f *hosted) calls(tasks []*engine.Task) []*call {
	if f.replays {
		return nil
	}
	calls, size := make([]*call, len(tasks)), 0
	for i, t := range tasks {
		calls[i] = f.call(t)
		if size += len(calls[i].Params) + len(calls[i].State) + len(calls[i].Values); size > maxCarry {
			calls[i].refuse(fmt.Sprintf("the params of %d steps that run together are more than %d MiB", len(tasks), maxCarry>>20))
		}
	}
	return calls
}

// call is the input of an activity about a task.
func (f *hosted) call(t *engine.Task) *call {
	if f.replays {
		return nil
	}
	return f.h.call(t, f.memos[t.Idx])
}

// child has a workflow of its own run some steps. The history of this one gets two events of it.
func (f *hosted) child(tasks []*engine.Task) {
	f.bundles++
	a := f.action(&underway{tasks: tasks, child: true})
	c := &protos.CreateSubOrchestrationAction{Name: StepsWorkflow, InstanceId: fmt.Sprintf("%s-steps-%d-%d", f.instance, len(f.log), a.Id), Router: f.router}
	if !f.replays {
		c.Input = wrapperspb.String(jsonOf(f.calls(tasks)))
	}
	a.OrchestratorActionType = &protos.OrchestratorAction_CreateSubOrchestration{CreateSubOrchestration: c}
}

// renew lets the workflow continue as new when it has become long and nothing is under way but timers, which are set anew.
func (f *hosted) renew() bool {
	if f.busy > 0 || f.suspended || f.terminated || f.verdict != nil || f.run.Status().Terminal() || f.ended < renewAfter && f.bytes < maxHistory {
		return false
	}
	raw := jsonOf(runOrder{Carried: &carried{prepared: *f.work, Log: f.log, Memos: f.memos, Early: f.early, No: f.no}})
	if len(raw) > maxCarry {
		f.fail("stepwell.limit", fmt.Sprintf("the log of the execution is %d KiB after %d of its steps; inside Dapr Workflow the limit is %d KiB", len(raw)>>10, f.run.Progress().Completed, maxCarry>>10))
		return true
	}
	f.actions = nil // timers of this turn
	f.verdict = ending(f.next, f.router, protos.OrchestrationStatus_ORCHESTRATION_STATUS_CONTINUED_AS_NEW, []byte(raw), nil)
	return true
}

// fail ends the workflow without the engine.
func (f *hosted) fail(kind, why string) {
	if f.verdict == nil {
		f.verdict, f.dirty = ending(f.next, f.router, protos.OrchestrationStatus_ORCHESTRATION_STATUS_FAILED, nil, &protos.TaskFailureDetails{ErrorType: kind, ErrorMessage: why, IsNonRetriable: true}), true
	}
}
