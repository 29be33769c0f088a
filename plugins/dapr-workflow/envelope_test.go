package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dapr/durabletask-go/api/protos"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// play is a workflow whose turns are played without a sidecar. Each turn is folded from the whole history, as a worker does that has just been
// started.
type play struct {
	t    *testing.T
	past []*protos.HistoryEvent
	now  time.Time

	status string // after the last turn
}

func newPlay(t *testing.T, name, input string) (*play, string) {
	p := &play{t: t, now: time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)}
	return p, p.turn(&protos.HistoryEvent{EventType: &protos.HistoryEvent_ExecutionStarted{ExecutionStarted: &protos.ExecutionStartedEvent{Name: name, Input: wrapperspb.String(input)}}})
}

// turn is what the workflow does about events, in short.
func (p *play) turn(events ...*protos.HistoryEvent) string {
	p.now = p.now.Add(time.Second)
	fresh := append([]*protos.HistoryEvent{{Timestamp: timestamppb.New(p.now), EventType: &protos.HistoryEvent_OrchestratorStarted{OrchestratorStarted: &protos.OrchestratorStartedEvent{}}}}, events...)
	actions, status := turn("i", p.past, fresh)
	p.status = status
	p.past = append(p.past, fresh...)
	var said []string
	for _, a := range actions {
		switch x := a.OrchestratorActionType.(type) {
		case *protos.OrchestratorAction_ScheduleTask:
			said = append(said, fmt.Sprintf("%d %s %s", a.Id, x.ScheduleTask.Name, x.ScheduleTask.Input.GetValue()))
		case *protos.OrchestratorAction_CreateTimer:
			said = append(said, fmt.Sprintf("%d timer %s", a.Id, x.CreateTimer.FireAt.AsTime().Sub(p.now)))
		case *protos.OrchestratorAction_CompleteOrchestration:
			c := x.CompleteOrchestration
			said = append(said, strings.TrimSpace(fmt.Sprintf("%s %s%s", strings.TrimPrefix(c.OrchestrationStatus.String(), "ORCHESTRATION_STATUS_"), c.Result.GetValue(), c.FailureDetails.GetErrorMessage())))
		default:
			p.t.Fatalf("%T", x)
		}
	}
	return strings.Join(said, " · ")
}

func (p *play) is(got, want string) {
	p.t.Helper()
	if got != want {
		p.t.Errorf("got  %s\nwant %s", got, want)
	}
}

func did(id int32, result string) *protos.HistoryEvent {
	return &protos.HistoryEvent{EventType: &protos.HistoryEvent_TaskCompleted{TaskCompleted: &protos.TaskCompletedEvent{TaskScheduledId: id, Result: wrapperspb.String(result)}}}
}

func failedWith(id int32, message string, hopeless bool) *protos.HistoryEvent {
	return &protos.HistoryEvent{EventType: &protos.HistoryEvent_TaskFailed{TaskFailed: &protos.TaskFailedEvent{TaskScheduledId: id, FailureDetails: &protos.TaskFailureDetails{ErrorMessage: message, IsNonRetriable: hopeless}}}}
}

func fired(id int32) *protos.HistoryEvent {
	return &protos.HistoryEvent{EventType: &protos.HistoryEvent_TimerFired{TimerFired: &protos.TimerFiredEvent{TimerId: id}}}
}

var (
	suspended  = &protos.HistoryEvent{EventType: &protos.HistoryEvent_ExecutionSuspended{ExecutionSuspended: &protos.ExecutionSuspendedEvent{}}}
	resumed    = &protos.HistoryEvent{EventType: &protos.HistoryEvent_ExecutionResumed{ExecutionResumed: &protos.ExecutionResumedEvent{}}}
	terminated = &protos.HistoryEvent{EventType: &protos.HistoryEvent_ExecutionTerminated{ExecutionTerminated: &protos.ExecutionTerminatedEvent{}}}
)

const (
	order    = `{"pipeline":"p"}`
	ordered  = `0 stepwell.start {"pipeline":"p","key":"dapr:i"}`
	begun    = `{"execution":"x"}`
	asking   = `1 stepwell.await {"execution":"x"}`
	finished = `{"ended":true,"status":"completed","result":{"n":1}}`
)

func TestTurns(t *testing.T) {
	p, said := newPlay(t, PipelineWorkflow, order)
	p.is(said, ordered)
	p.is(p.turn(did(0, begun)), asking)
	p.is(p.status, "x")
	p.is(p.turn(did(1, `{"ended":false}`)), `2 stepwell.await {"execution":"x"}`)
	p.is(p.turn(did(1, finished)), "") // it has been told before
	p.is(p.turn(did(2, finished)), `COMPLETED {"n":1}`)
	p.is(p.turn(terminated), "")
}

func TestTurnsWithoutServer(t *testing.T) {
	p, said := newPlay(t, PipelineWorkflow, order)
	p.is(said, ordered)
	p.is(p.turn(failedWith(0, "away", false)), "1 timer 1s")
	p.is(p.status, "asking again: away")
	p.is(p.turn(fired(1)), `2 stepwell.start {"pipeline":"p","key":"dapr:i"}`)
	p.is(p.turn(failedWith(2, "away", false)), "3 timer 2s")
	p.is(p.turn(terminated), "") // whether it was started is not known: it is asked again
	p.is(p.turn(fired(3)), `4 stepwell.start {"pipeline":"p","key":"dapr:i"}`)
	p.is(p.turn(did(4, begun)), `5 stepwell.await {"execution":"x"} · 6 stepwell.control {"execution":"x","verb":"cancel"}`)
	p.is(p.turn(failedWith(6, "away", false)), "7 timer 1s")
	p.is(p.turn(fired(7)), `8 stepwell.control {"execution":"x","verb":"cancel"}`)
	p.is(p.turn(did(8, begun), did(5, `{"ended":true,"status":"cancelled","error":"e"}`)), "TERMINATED the workflow was terminated; the execution x is cancelled")

	p, _ = newPlay(t, PipelineWorkflow, order)
	p.is(p.turn(failedWith(0, "no such pipeline", true)), "FAILED no such pipeline")
}

func TestTurnsSuspended(t *testing.T) {
	p, _ := newPlay(t, PipelineWorkflow, order)
	p.is(p.turn(suspended), "")
	p.is(p.turn(did(0, begun)), asking+` · 2 stepwell.control {"execution":"x","verb":"pause"}`)
	p.is(p.turn(resumed), "") // one word after the other
	p.is(p.turn(suspended), "")
	p.is(p.turn(did(2, begun)), "")
	p.is(p.turn(resumed), `3 stepwell.control {"execution":"x","verb":"resume"}`)
	p.is(p.turn(suspended), "")
	p.is(p.turn(did(1, finished)), "") // it ends when it is resumed
	p.is(p.turn(did(3, begun)), `5 stepwell.control {"execution":"x","verb":"pause"}`)
	p.is(p.turn(resumed), `COMPLETED {"n":1}`)
}

// TestTurnsContinue: a history does not grow for ever.
func TestTurnsContinue(t *testing.T) {
	p, _ := newPlay(t, PipelineWorkflow, order)
	said := p.turn(did(0, begun))
	for id := int32(1); strings.Contains(said, "stepwell.await"); id++ {
		if id > 2*maxAwaits {
			t.Fatal("it grows")
		}
		said = p.turn(did(id, `{"ended":false}`))
	}
	input, ok := strings.CutPrefix(said, "CONTINUED_AS_NEW ")
	if !ok {
		t.Fatal(said)
	}
	p, said = newPlay(t, PipelineWorkflow, input)
	p.is(said, `0 stepwell.await {"execution":"x"}`)
	p.is(p.turn(did(0, finished)), `COMPLETED {"n":1}`)
}
