package steptest

import (
	"reflect"
	"testing"
	"time"

	"github.com/stepwell/stepwell/scenario"
)

// Execution is one that has come to rest. What it has besides its methods is there to be looked at.
type Execution struct {
	*scenario.Played
	t testing.TB
}

func newExecution(t testing.TB, r *scenario.Result) *Execution { return &Execution{r.Played, t} }

// Want fails the test unless the execution has the status.
func (x *Execution) Want(status string) *Execution {
	x.t.Helper()
	if got := x.Execution.Status.String(); got != status {
		message := ""
		if f := x.Execution.Failure; f != nil {
			message = ": " + f.Step + ": " + f.Message
		}
		x.t.Errorf("the execution is %s, want %s%s", got, status, message)
	}
	return x
}

// Gives fails the test unless the execution's outputs are these.
func (x *Execution) Gives(outputs map[string]any) *Execution {
	x.t.Helper()
	equal(x.t, "the outputs of the execution", x.Outputs, outputs)
	return x
}

// Took is the time from the start to the end.
func (x *Execution) Took() time.Duration { return x.Execution.Ended.Sub(x.Execution.Created) }

// Step is a step by its key. The test ends if there was none.
func (x *Execution) Step(key string) *Step {
	x.t.Helper()
	s := x.Steps[key]
	if s == nil {
		x.t.Fatalf("there was no step %q; there were %q", key, x.Keys)
	}
	return &Step{s, key, x}
}

// Step is a step of an execution.
type Step struct {
	*scenario.PlayedStep
	key string
	x   *Execution
}

// Want fails the test unless the step has the status.
func (s *Step) Want(status string) *Step {
	s.x.t.Helper()
	if got := s.Status.String(); got != status {
		message := ""
		if s.Error != nil {
			message = ": " + s.Error.Message
		}
		s.x.t.Errorf("%s is %s, want %s%s", s.key, got, status, message)
	}
	return s
}

// Attempts fails the test unless the step had so many.
func (s *Step) Attempts(n int) *Step {
	s.x.t.Helper()
	if s.Attempt != n {
		s.x.t.Errorf("%s had %d attempts, want %d", s.key, s.Attempt, n)
	}
	return s
}

// After fails the test unless the step's last attempt began later than so long after the start.
func (s *Step) After(d time.Duration) *Step {
	s.x.t.Helper()
	if began := time.UnixMicro(s.Started).Sub(s.x.Execution.Created); s.Started == 0 || began < d {
		s.x.t.Errorf("the last attempt of %s began after %s, want later than %s", s.key, began, d)
	}
	return s
}

// Gives fails the test unless the step's outputs are these.
func (s *Step) Gives(outputs map[string]any) *Step {
	s.x.t.Helper()
	equal(s.x.t, "the outputs of "+s.key, s.Outputs, outputs)
	return s
}

// Params are the rendered params of the step's calls, in order.
func (s *Step) Params() (params []map[string]any) {
	for _, c := range s.x.CallsOf(s.key) {
		params = append(params, c.Params)
	}
	return params
}

func equal(t testing.TB, what string, got, want any) {
	t.Helper()
	if got, want = compared(t, got), compared(t, want); !reflect.DeepEqual(got, want) {
		t.Errorf("%s are %v, want %v", what, got, want)
	}
}
