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
	if u.child {
		f.bundles--
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
	direct := f.busy - f.bundles
	for len(f.ready) > 0 {
		switch {
		case len(f.ready) > maxDirect && f.bundles < maxBundles:
			f.child(slices.Clone(f.ready[:maxBundle]))
			f.ready = f.ready[maxBundle:]
		case len(f.ready) > maxDirect:
			return
		case direct < maxDirect:
			f.schedule(stepActivity, f.call(f.ready[0]), &underway{tasks: []*engine.Task{f.ready[0]}})
			f.ready = f.ready[1:]
			direct++
		default:
			return
		}
	}
	f.ready = nil
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
		calls, size := make([]*call, len(tasks)), 0
		for i, t := range tasks {
			calls[i] = f.call(t)
			if size += len(calls[i].Params) + len(calls[i].State) + len(calls[i].Values); size > maxCarry {
				calls[i].refuse(fmt.Sprintf("the params of %d steps that run together are more than %d MiB", len(tasks), maxCarry>>20))
			}
		}
		c.Input = wrapperspb.String(jsonOf(calls))
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
