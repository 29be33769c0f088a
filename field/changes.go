package field

import (
	"context"
	"math"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api/columns"
	"github.com/stepwell/stepwell/store"
)

// Bounds of the changes of an execution.
const (
	MaxChanges = 1 << 22 // of one execution
	KeyframeOf = 1 << 16 // changes lie between two keyframes; also the rows of one answer at most
	longDT     = math.MaxUint16
	perChange  = 4 + 1 + 1 + 4 + 4 + 4 + 8 // bytes
)

// Changes are all changes of the steps of an execution, in the order of its commits: folded up to a version they are Past.Table.
type Changes struct {
	Version int64
	began   int64 // ms since 1970
	main    int   // steps of the definition's top level: they are pending at first, all others absent
	steps   int   // indexes
	index   []uint32
	version []uint32
	at      []int64 // ms since 1970, of the commit; never less than the one before
	states
}

// states are the changing columns of steps, or of changes.
type states struct {
	status, attempt []uint8
	start, duration []uint32
}

// Changes are those of an execution, whose row the caller has read: at least up to its version. Unless they are kept, the step log is
// folded. CodeLimit when they are more than MaxChanges.
func (h *Hub) Changes(ctx context.Context, x *store.Execution) (*Changes, error) {
	if c := h.logs.find(x.No, x.Version, math.MaxInt64); c != nil {
		return c, nil
	}
	if err := h.builds.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	defer h.builds.Release(1)
	if c := h.logs.find(x.No, x.Version, math.MaxInt64); c != nil {
		return c, nil // somebody else has made them meanwhile
	}
	s, err := h.shapeOf(ctx, x.Definition)
	if err != nil {
		return nil, err
	}
	c := &Changes{began: origin(x), main: len(s.plan.Graph.Steps)}
	c.steps = c.main
	folding, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	c.Version, err = h.o.Changes(folding, x.ID, func(s store.StepState, at int64) {
		if len(c.index) == MaxChanges {
			stop(stepwell.Errorf(stepwell.CodeLimit, "/field?version= gives single moments", "the execution %s has more than %d changes", x.ID, MaxChanges))
			return
		}
		c.add(&s, at/1000)
	})
	if cause := context.Cause(folding); cause != nil {
		return nil, cause
	}
	if err != nil {
		return nil, err
	}
	h.logs.keep(x.No, c.Version, c, perChange*len(c.index), h.o.Bytes/4)
	return c, nil
}

func (c *Changes) add(s *store.StepState, at int64) {
	c.steps = max(c.steps, int(s.Idx)+1)
	if n := len(c.at); n > 0 {
		at = max(at, c.at[n-1])
	}
	c.index, c.version, c.at = append(c.index, uint32(s.Idx)), append(c.version, uint32(s.Version)), append(c.at, at)
	status, attempt, start, duration := stateColumns(s, c.began)
	if s.Superseded && int(s.Idx) < c.main {
		status = uint8(stepwell.StepPending)
	}
	c.status, c.attempt, c.start, c.duration = append(c.status, status), append(c.attempt, attempt), append(c.start, start), append(c.duration, duration)
}

// keyframe is the state of every step before a change.
func (c *Changes) keyframe(from int) states {
	k := states{make([]uint8, c.steps), make([]uint8, c.steps), make([]uint32, c.steps), make([]uint32, c.steps)}
	for i := c.main; i < c.steps; i++ {
		k.status[i] = absent
	}
	for e, i := range c.index[:from] {
		k.status[i], k.attempt[i], k.start[i], k.duration[i] = c.status[e], c.attempt[e], c.start[e], c.duration[e]
	}
	return k
}

// Encode writes the changes from one on, up to before another one, as a table of columns: at most KeyframeOf. Where the first is a
// multiple of that, the states of all steps before it come with them.
func (c *Changes) Encode(from, to int) ([]byte, error) {
	n := len(c.index)
	from = min(max(from, 0), n)
	to = min(max(to, from), n, from+KeyframeOf)
	head := columns.Header{Version: c.Version, Rows: to - from, From: from, Total: n, Began: c.began, At: c.began, States: stateNames}
	if from > 0 {
		head.At = c.at[from-1]
	}
	dt, gaps := make([]uint16, to-from), []uint32{}
	before := head.At
	for k, at := range c.at[from:to] {
		took := max(at-before, 0)
		if before = max(at, before); took < longDT {
			dt[k] = uint16(took)
			continue
		}
		dt[k] = longDT
		gaps = append(gaps, uint32(took), uint32(took>>32))
	}
	data := []columns.Data{{Name: "index", U32: c.index[from:to]}, {Name: "status", U8: c.status[from:to]}, {Name: "attempt", U8: c.attempt[from:to]},
		{Name: "start", U32: c.start[from:to]}, {Name: "duration", U32: c.duration[from:to]}, {Name: "version", U32: c.version[from:to]},
		{Name: "dt", U16: dt}, {Name: "gap", U32: gaps}}
	if from%KeyframeOf == 0 {
		k := c.keyframe(from)
		data = append(data, columns.Data{Name: "at_status", U8: k.status}, columns.Data{Name: "at_attempt", U8: k.attempt},
			columns.Data{Name: "at_start", U32: k.start}, columns.Data{Name: "at_duration", U32: k.duration})
	}
	return columns.Encode(head, data)
}
