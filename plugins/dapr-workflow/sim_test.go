package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dapr/durabletask-go/api/protos"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

// newTestHosting hosts executions with two actions more: test.count counts its calls by its param "as" and returns their number, test.flaky fails
// until its third call.
func newTestHosting(t testing.TB, dir string) (*hosting, *counter) {
	t.Helper()
	n := &counter{calls: map[string]int{}}
	return newRegisteredHosting(t, dir, n.register), n
}

// newRegisteredHosting hosts executions with more actions until the test ends.
func newRegisteredHosting(t testing.TB, dir string, register func(*action.Registry) error) *hosting {
	t.Helper()
	h, err := newHosting(hostingOptions{Dir: dir, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Workers: 64, Register: register})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- h.serve(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil }) }()
	t.Cleanup(func() { stop(); <-served })
	return h
}

type counter struct {
	mu    sync.Mutex
	calls map[string]int
}

func (n *counter) register(r *action.Registry) error {
	fields := []spec.Field{{Name: "as", Type: spec.String, Required: true}, {Name: "fails", Type: spec.Integer}}
	return r.Add(action.Action{Spec: spec.Spec{Name: "util.test_count", Params: fields, Outputs: []spec.Field{{Name: "calls", Type: spec.Integer}}}, Handler: n})
}

// Run fails as often as its params say, and returns how often it was called.
func (n *counter) Run(_ context.Context, call *action.Call) (any, error) {
	as, _ := call.Params["as"].(string)
	fails, _ := call.Params["fails"].(int64)
	n.mu.Lock()
	n.calls[as]++
	calls := n.calls[as]
	n.mu.Unlock()
	if calls <= int(fails) {
		return nil, fmt.Errorf("call %d", calls)
	}
	return map[string]any{"calls": calls}, nil
}

func (n *counter) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.calls)
}

func (n *counter) of(as string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls[as]
}

// simulation plays a sidecar for one workflow: activities run at once, timers when nothing else is left.
type simulation struct {
	t        *testing.T
	h        *hosting
	instance string
	forgets  bool // every turn is folded from the whole history
	doubles  bool // every result comes twice
	renewed  int  // how often the workflow continued as new
	children int
	// activities are those of the workflow itself.
	activities int

	past, inbox []*protos.HistoryEvent
	timers      []*protos.HistoryEvent
	first, now  time.Time
	status      string
	ended       *protos.CompleteOrchestrationAction
}

func (h *hosting) simulate(t *testing.T, name, instance, input string) *simulation {
	s := &simulation{t: t, h: h, instance: instance, now: time.Now()}
	s.start(name, input)
	return s
}

func (s *simulation) start(name, input string) {
	if s.first.IsZero() {
		s.first = s.now
	}
	s.past, s.timers = nil, nil
	s.inbox = append([]*protos.HistoryEvent{{EventType: &protos.HistoryEvent_ExecutionStarted{ExecutionStarted: &protos.ExecutionStartedEvent{Name: name, Input: wrapperspb.String(input),
		OrchestrationInstance: &protos.OrchestrationInstance{InstanceId: s.instance, ExecutionId: wrapperspb.String(rand.Text())}}}}}, s.inbox...)
}

// began is when its first turn was.
func (s *simulation) began() time.Time { return s.first }

// run plays until the workflow has ended, or waits for something from outside.
func (s *simulation) run() *simulation {
	for s.ended == nil {
		if len(s.inbox) == 0 {
			if len(s.timers) == 0 {
				return s
			}
			slices.SortStableFunc(s.timers, func(a, b *protos.HistoryEvent) int {
				return a.Timestamp.AsTime().Compare(b.Timestamp.AsTime())
			})
			if at := s.timers[0].Timestamp.AsTime(); at.After(s.now) {
				s.now = at
			}
			s.inbox, s.timers = append(s.inbox, s.timers[0]), s.timers[1:]
		}
		s.turn()
	}
	return s
}

// turn plays one turn. What an activity returns comes with the next.
func (s *simulation) turn() {
	s.now = s.now.Add(10 * time.Millisecond)
	fresh := append([]*protos.HistoryEvent{{Timestamp: timestamppb.New(s.now), EventType: &protos.HistoryEvent_OrchestratorStarted{OrchestratorStarted: &protos.OrchestratorStartedEvent{}}}}, s.inbox...)
	for _, e := range fresh {
		if e.Timestamp == nil {
			e.Timestamp = timestamppb.New(s.now)
		}
	}
	s.inbox = nil
	if s.forgets {
		s.h.mu.Lock()
		clear(s.h.folds)
		s.h.mu.Unlock()
	}
	name := workflowOf(s.past, fresh)
	actions, status := s.h.beside(turn)(s.instance, s.past, fresh)
	s.status = status
	s.past = append(s.past, fresh...)
	for _, a := range actions {
		s.act(name, a)
	}
}

func (s *simulation) act(name string, a *protos.OrchestratorAction) {
	switch x := a.OrchestratorActionType.(type) {
	case *protos.OrchestratorAction_ScheduleTask:
		if x.ScheduleTask.Input == nil {
			s.t.Fatalf("the activity %d has no input", a.Id)
		}
		s.past = append(s.past, &protos.HistoryEvent{EventType: &protos.HistoryEvent_TaskScheduled{TaskScheduled: &protos.TaskScheduledEvent{Name: x.ScheduleTask.Name}}})
		s.activities++
		result, err := s.h.besideActivities(nil)(s.t.Context(), x.ScheduleTask.Name, []byte(x.ScheduleTask.Input.GetValue()))
		e := failedWith(a.Id, fmt.Sprint(err), true)
		if err == nil {
			raw, err := json.Marshal(result)
			if err != nil {
				s.t.Fatal(err)
			}
			e = did(a.Id, string(raw))
		}
		s.inbox = append(s.inbox, e)
		if s.doubles {
			s.inbox = append(s.inbox, e)
		}
	case *protos.OrchestratorAction_CreateTimer:
		e := fired(a.Id)
		e.Timestamp = x.CreateTimer.FireAt
		s.timers = append(s.timers, e)
	case *protos.OrchestratorAction_CreateSubOrchestration:
		s.children++
		child := &simulation{t: s.t, h: s.h, instance: x.CreateSubOrchestration.InstanceId, forgets: s.forgets, doubles: s.doubles, now: s.now}
		child.start(x.CreateSubOrchestration.Name, x.CreateSubOrchestration.Input.GetValue())
		end := child.run().ended
		if end == nil {
			s.t.Fatal("a child does not end")
		}
		s.inbox = append(s.inbox, &protos.HistoryEvent{EventType: &protos.HistoryEvent_SubOrchestrationInstanceCompleted{
			SubOrchestrationInstanceCompleted: &protos.SubOrchestrationInstanceCompletedEvent{TaskScheduledId: a.Id, Result: end.Result}}})
	case *protos.OrchestratorAction_CompleteOrchestration:
		if c := x.CompleteOrchestration; c.OrchestrationStatus != protos.OrchestrationStatus_ORCHESTRATION_STATUS_CONTINUED_AS_NEW {
			s.ended = c
			return
		}
		s.renewed++
		s.start(name, x.CompleteOrchestration.Result.GetValue())
	default:
		s.t.Fatalf("%T", x)
	}
}

// end is how the workflow has ended, in short.
func (s *simulation) end() string {
	s.t.Helper()
	if s.ended == nil {
		s.t.Fatalf("the workflow does not end: %s", s.status)
	}
	return strings.TrimSpace(strings.TrimPrefix(s.ended.OrchestrationStatus.String(), "ORCHESTRATION_STATUS_") + " " + s.ended.Result.GetValue() + s.ended.FailureDetails.GetErrorMessage())
}

func raised(name, data string) *protos.HistoryEvent {
	return &protos.HistoryEvent{EventType: &protos.HistoryEvent_EventRaised{EventRaised: &protos.EventRaisedEvent{Name: name, Input: wrapperspb.String(data)}}}
}
