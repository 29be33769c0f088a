package desk

import (
	"testing"

	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/queue"
)

// While a turn that takes tasks reports outcomes of an execution, that execution's next steps wake no other turn of its worker; those of
// other executions do, and what the turn has left too.
func TestAsks(t *testing.T) {
	d := New(Options{})
	s := &session{name: "w", actions: map[string]bool{"t.far": true}}
	other := &session{name: "other", actions: map[string]bool{"t.far": true}}
	d.sessions[s.name], d.sessions[other.name] = s, other
	of := func(run int64, idx int32) *engine.Task {
		return &engine.Task{Run: run, Execution: "e", Idx: idx, Epoch: 1, Step: &plan.Step{Action: "t.far", Policy: &plan.Policy{}}}
	}
	push := func(runs ...int64) (woken, others bool) {
		t.Helper()
		bell, second := s.bell(), other.bell()
		var list []queue.Message
		for i, run := range runs {
			x := of(run, int32(i))
			list = append(list, queue.Message{Run: run, Idx: x.Idx, Epoch: 1, Body: x})
		}
		if err := d.Push(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		return rung(bell), rung(second)
	}
	run := s.asks([]*attempt{{task: of(1, 1)}, {task: of(1, 2)}})
	if run != 1 {
		t.Fatalf("it asks for execution %d", run)
	}
	if none := s.asks([]*attempt{{task: of(1, 1)}, {task: of(2, 2)}}); none != 0 {
		t.Errorf("it asks for execution %d of two", none)
	}
	if woken, others := push(1); woken || !others {
		t.Errorf("the execution's own step: woken %v, others %v", woken, others)
	}
	if woken, _ := push(2); !woken {
		t.Error("the step of another execution wakes nobody")
	}
	if woken, _ := push(1, 2); !woken {
		t.Error("the steps of two executions wake nobody")
	}
	bell := s.bell()
	d.asked(s, run)
	if !rung(bell) || len(s.asking) > 0 {
		t.Errorf("what is left wakes nobody; asking %v", s.asking)
	}
	if woken, _ := push(1); !woken {
		t.Error("a step wakes nobody after the turn")
	}
}

func rung(bell chan struct{}) bool {
	select {
	case <-bell:
		return true
	default:
		return false
	}
}
