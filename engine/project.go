package engine

import (
	"encoding/json"

	"github.com/stepwell/stepwell"
)

// Processed counts items that are processed, and those of them that failed.
type Processed struct{ Done, Errors int64 }

// An execution with a project counts as one item at its first end; or, where the definition names a step (plan.Plan.Items), the
// iterations of that for_each count as they end, and the items of that stream step when it has completed. An item counts once: the
// n-th item to end counts if fewer than n have ended before a restart. What a stop cuts short or leaves out does not count.

// Project is the project of the execution; "": none.
func (r *Run) Project() string { return r.project }

// hasItems reports whether the items of a step count.
func (r *Run) hasItems(p place) bool {
	return r.project != "" && p.i == r.plan.Items-1 && p.s == r.main
}

// countExecution counts an execution that has ended.
func (r *Run) countExecution(status stepwell.ExecutionStatus) {
	if r.project == "" || r.plan.Items > 0 || r.processed > 0 {
		return
	}
	failed := int64(0)
	if status != stepwell.ExecutionCompleted && status != stepwell.ExecutionCompletedWithFailures {
		failed = 1
	}
	r.countItems(1, failed)
}

// countIterations counts an iteration that has ended, unless as many have been counted.
func (r *Run) countIterations(e *each, failed bool) {
	if int64(e.completed)+int64(e.failed)+int64(e.skipped) <= r.processed {
		return
	}
	n := int64(0)
	if failed {
		n = 1
	}
	r.countItems(1, n)
}

// countStream counts the items that a completed stream step says it has processed.
func (r *Run) countStream(p place) {
	if p.step().Body != nil {
		return
	}
	output := r.got.output
	if in := p.node().info; in != nil && in.output != nil {
		output = in.output
	}
	var n struct {
		In      int64 `json:"items_in"`
		Out     int64 `json:"items_out"`
		Failed  int64 `json:"items_failed"`
		Resumed int64 `json:"items_resumed"` // those before a crash or a failed attempt
	}
	if IsRef(output) || json.Unmarshal(output, &n) != nil {
		return
	}
	if n.In == 0 && n.Resumed == 0 { // a source
		n.In = n.Out + n.Failed
	}
	if more := n.In + n.Resumed - r.processed; more > 0 {
		r.countItems(more, min(n.Failed, more))
	}
}

func (r *Run) countItems(done, failed int64) {
	r.processed += done
	r.fx.Processed.Done += done
	r.fx.Processed.Errors += failed
}
