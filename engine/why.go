package engine

import (
	"fmt"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
)

// Reason says why a step, or the execution, is in its state.
type Reason struct {
	Code    string   `json:"code"`
	Message string   `json:"message"`
	Steps   []string `json:"steps,omitempty"` // keys of the steps that are the reason, at most 20
}

// The codes of reasons.
const (
	WhyHeld         = "held"               // the execution has not been admitted
	WhyPaused       = "paused"             // the execution is paused
	WhyDependencies = "dependencies"       // waits for Steps
	WhyNotSpawned   = "not_spawned"        // its spawner was restarted and has not spawned it again
	WhyParallel     = "max_parallel_steps" // as many steps run as may
	WhyWindow       = "window"             // as many steps of the execution are dispatched as the engine allows
	WhyItems        = "max_concurrency"    // as many iterations are under way as may
	WhyQueued       = "queued"             // waits for a worker
	WhyRunning      = "running"
	WhyInside       = "inside"       // waits for Steps inside
	WhyStopping     = "stopping"     // has been asked to stop
	WhyBackoff      = "backoff"      // waits for its next attempt
	WhyTime         = "time"         // waits for a time
	WhySignal       = "signal"       // waits for an outside signal
	WhyAgain        = "again"        // is not in its first attempt
	WhyCompleted    = "completed"    // done as intended
	WhyTakenOver    = "taken_over"   // the result is that of an earlier execution
	WhyCondition    = "condition"    // the condition is false
	WhyRule         = "trigger_rule" // the trigger rule keeps it from running
	WhySkipped      = "skipped"      // the action, or the person asked, chose so
	WhyFailed       = "failed"       // it failed, or Steps did
	WhyStopped      = "stopped"      // a failure elsewhere, a cancel or a time limit has ended it
	WhyLate         = "late"         // the execution takes longer than its settings promise
	WhyDiverged     = "diverged"     // the execution's log does not lead to its state (Diverged)
)

// mostReasonSteps bounds Reason.Steps.
const mostReasonSteps = 20

// Why explains the state of the step with a key, or with "" that of the execution, the most telling
// reason first. It may look at every step. A key that is not known, or belongs to an iteration or a group
// that is over, is CodeNotFound.
func (r *Run) Why(key string) ([]Reason, error) {
	switch {
	case r.main == nil:
		return nil, stepwell.Errorf(stepwell.CodeConflict, "", "the execution has not started")
	case key == "":
		return r.whyRun(), nil
	}
	p, ok := search(r.main, key)
	if ok {
		return r.whyStep(p), nil
	}
	if reason, ok := r.whyNotBegun(key); ok {
		return []Reason{reason}, nil
	}
	return nil, &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf("no step %q is known", key),
		Hint: "what was inside a step that has ended is found in the stored steps only"}
}

// whyRun explains the execution's own state.
func (r *Run) whyRun() []Reason {
	var out []Reason
	switch r.status {
	case stepwell.ExecutionPending:
		return []Reason{{Code: WhyHeld, Message: "the execution has not been admitted yet"}}
	case stepwell.ExecutionCancelling:
		reason := Reason{Code: WhyStopping, Message: "cancelled while the handlers run: they may finish; cancel again to end those that wait"}
		if r.failure != nil {
			reason.Message = r.failure.Message
		}
		out = append(out, reason)
	case stepwell.ExecutionPaused:
		out = append(out, Reason{Code: WhyPaused, Message: "paused: nothing new starts until it is resumed"})
	case stepwell.ExecutionCompleted:
		out = append(out, Reason{Code: WhyCompleted, Message: "every step has ended well"})
	case stepwell.ExecutionCompletedWithFailures:
		out = append(out, Reason{Code: WhyFailed, Message: "steps failed, and the pipeline continues nevertheless", Steps: r.keys(func(p place) bool { return p.node().lost() })})
	case stepwell.ExecutionFailed, stepwell.ExecutionCancelled, stepwell.ExecutionTimedOut:
		out = append(out, r.whyEnded())
	}
	if !r.status.Terminal() {
		out = append(out, r.underWay()...)
	}
	if r.breached != "" {
		limit := r.plan.SLA.Expected
		if r.breached == BreachedMaximum {
			limit = r.plan.SLA.Maximum
		}
		takes := "takes"
		if r.status.Terminal() {
			takes = "took"
		}
		out = append(out, Reason{Code: WhyLate, Message: fmt.Sprintf("%s longer than the %s of %v", takes, r.breached, limit)})
	}
	return out
}

func (r *Run) whyEnded() Reason {
	reason := Reason{Code: WhyFailed, Message: r.failure.Message}
	if r.cause != 0 {
		reason.Code = WhyStopped
	}
	if r.failure.Step != "" {
		reason.Steps = []string{r.failure.Step}
	}
	return reason
}

// underWay describes the activity of an execution that has not ended.
func (r *Run) underWay() []Reason {
	var out []Reason
	for _, kind := range []struct {
		code, message string
		is            func(n *node, p place) bool
	}{
		{WhyRunning, "steps are dispatched or running", func(n *node, p place) bool {
			return (n.status == stepwell.StepQueued || n.status == stepwell.StepRunning) && p.step().Body == nil
		}},
		{WhySignal, "steps wait for something outside", func(n *node, _ place) bool { return n.status == stepwell.StepWaiting && n.info.wait.Await }},
		{WhyTime, "steps wait for a time", func(n *node, _ place) bool { return n.status == stepwell.StepWaiting && !n.info.wait.Await }},
		{WhyBackoff, "steps wait for their next attempt", func(n *node, _ place) bool { return n.status == stepwell.StepRetrying }},
	} {
		if keys := r.keys(func(p place) bool { return kind.is(p.node(), p) }); len(keys) > 0 {
			out = append(out, Reason{Code: kind.code, Message: kind.message, Steps: keys})
		}
	}
	return out
}

// keys lists the first steps for which is holds.
func (r *Run) keys(is func(p place) bool) []string {
	var out []string
	r.visit(func(p place) {
		if len(out) < mostReasonSteps && is(p) {
			out = append(out, p.key())
		}
	})
	return out
}

// few bounds a list of steps and says how many are left out.
func few(steps []string) (shown []string, text string) {
	if n := len(steps) - mostReasonSteps; n > 0 {
		return steps[:mostReasonSteps], fmt.Sprintf("%s and %d more", strings.Join(steps[:mostReasonSteps], ", "), n)
	}
	return steps, strings.Join(steps, ", ")
}

func clock(at int64) string { return time.UnixMicro(at).UTC().Format(time.RFC3339) }
