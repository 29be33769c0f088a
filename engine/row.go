package engine

import (
	"maps"

	"github.com/stepwell/stepwell"
)

// row records the state of a step that has not ended.
func (r *Run) row(p place) {
	n := p.node()
	row := StepRow{Idx: p.idx(), Status: n.status, Attempt: int(n.attempt), Queued: n.queued}
	in := n.info
	if in == nil {
		in = &info{}
	}
	row.Worker, row.Started = in.worker, in.started
	if n.status == stepwell.StepRetrying || n.status == stepwell.StepWaiting {
		row.Wake = in.wake
	}
	members := row // which have no more than this in common with their lead
	switch row.Input = r.got.input; n.status {
	case stepwell.StepRetrying:
		row.Error = in.last
	case stepwell.StepWaiting:
		row.External = in.wait.External
	}
	nameRow(p, &row)
	r.record(p, &row)
	r.memberRows(p, members)
}

// endedRow records a step's end with the content of its report.
func (r *Run) endedRow(p place, why *Failure) {
	n := p.node()
	row := StepRow{Idx: p.idx(), Seq: n.seq, Status: n.status, Attempt: int(n.attempt), Error: why, Output: r.got.output,
		Input: r.got.input, Worker: r.got.worker, Queued: n.queued, Started: r.got.started, Ended: r.now}
	if counts, ok := r.counted[row.Idx]; ok {
		row.Counted = &counts
	}
	r.got = arrival{}
	nameRow(p, &row)
	r.record(p, &row)
}

// supersededRow closes the row of a step that a restart gives up with all that is around it.
func (r *Run) supersededRow(p place) {
	n := p.node()
	row := StepRow{Idx: p.idx(), Status: stepwell.StepCancelled, Attempt: int(n.attempt), Queued: n.queued, Ended: r.now,
		Error: &Failure{Code: stepwell.CodeCancelled, Message: "given up for a restart"}}
	nameRow(p, &row)
	r.record(p, &row)
}

// record hands a row out to be stored.
func (r *Run) record(p place, row *StepRow) {
	n := p.node()
	row.Again = n.flags&hasRow != 0
	spent := r.costs[row.Idx]
	row.Cost, row.Usage = spent.Cost, spent.Usage
	n.flags |= hasRow
	r.fx.Rows = append(r.fx.Rows, *row)
}

// nameRow fills in the values that are not in the definition: key and action of steps beyond its top level, and the
// params of spawned steps.
func nameRow(p place, row *StepRow) {
	if p.s.up() == nil && int(p.i) < len(p.s.graph.Steps) {
		return
	}
	row.Key, row.Action = p.key(), p.step().Does()
	if x := p.s.spawnedAt(p.i); x != nil && row.Input == nil && len(x.spec.Params) > 0 {
		row.Input = x.spec.Params
	}
}

// count lays counts ready for the rows of the steps that this batch ends.
func (r *Run) count(counted map[int32]Items) {
	if len(counted) == 0 {
		return
	}
	if r.counted == nil {
		r.counted = make(map[int32]Items, len(counted))
	}
	maps.Copy(r.counted, counted)
}
