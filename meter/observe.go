package meter

import (
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// maxInFlight limits the running steps whose names are kept.
const maxInFlight = 200_000

// runs is the state of running executions.
type runs struct {
	mu        sync.Mutex
	running   map[int64]*run
	steps     int // of all runs
	pipelines labels
	actions   labels
	triggers  labels
}

// run is an execution that goes on.
type run struct {
	begun bool // its start has been counted, or was before this process
	steps map[int32]name
}

// name is a step's key and action; rows of top-level steps leave them out.
type name struct{ key, action string }

func newRuns(most int) runs {
	l := func() labels { return labels{most: most, known: map[string]struct{}{}} }
	return runs{running: map[int64]*run{}, pipelines: l(), actions: l(), triggers: l()}
}

func (r *runs) inFlight() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.steps
}

// Observe takes in a commit (conductor.Options.Observe). It keeps nothing of it.
func (m *Meter) Observe(u *conductor.Update) {
	m.runs.mu.Lock()
	defer m.runs.mu.Unlock()
	x := u.Execution
	r := m.runs.running[x.No]
	if r == nil {
		r = &run{steps: map[int32]name{}, begun: x.Version > 0} // only an execution read from the store has a version
		m.runs.running[x.No] = r
	}
	if !r.begun && !x.Held() {
		r.begun = true
		m.begun(x)
	}
	for i := range u.Rows {
		m.row(u, r, &u.Rows[i])
	}
	for _, t := range u.Tasks {
		m.runs.know(r, t)
	}
	if u.Breached != "" {
		m.m.breached.WithLabelValues(m.runs.pipelines.of(x.Pipeline), u.Breached).Inc()
	}
	if x.Status.Terminal() {
		m.runs.steps -= len(r.steps)
		delete(m.runs.running, x.No)
		m.ended(x)
	}
}

func (m *Meter) begun(x *store.Execution) {
	m.m.started.WithLabelValues(m.runs.pipelines.of(x.Pipeline), m.runs.triggers.of(x.Trigger)).Inc()
	if !x.Started.IsZero() {
		m.m.startTime.Observe(max(0, x.Started.Sub(x.Created).Seconds()))
	}
}

func (m *Meter) ended(x *store.Execution) {
	pipeline := m.runs.pipelines.of(x.Pipeline)
	m.m.ended.WithLabelValues(pipeline, x.Status.String()).Inc()
	if !x.Started.IsZero() && !x.Ended.IsZero() {
		m.m.executionTime.WithLabelValues(pipeline).Observe(max(0, x.Ended.Sub(x.Started).Seconds()))
	}
	if m.o.Tracer != nil {
		m.o.Tracer.execution(x)
	}
}

// know keeps the names of dispatched steps.
func (r *runs) know(x *run, t *engine.Task) {
	r.name(x, t.Idx, name{t.Key, t.Step.Does()})
	for _, member := range t.Members {
		r.name(x, member.Idx, name{member.Key, t.Step.Does()})
	}
}

func (r *runs) name(x *run, idx int32, n name) {
	if _, ok := x.steps[idx]; !ok {
		if r.steps >= maxInFlight {
			return
		}
		r.steps++
	}
	x.steps[idx] = n
}

// row takes in the row of a step.
func (m *Meter) row(u *conductor.Update, r *run, row *engine.StepRow) {
	n, dispatched := r.steps[row.Idx]
	if n.key == "" {
		n.key = row.Key
	}
	if n.action == "" {
		n.action = row.Action
	}
	if n.action == "" || !dispatched && row.Started == 0 {
		n.action = "none"
	}
	over := row.Status.Terminal()
	if over && dispatched {
		delete(r.steps, row.Idx)
		m.runs.steps--
	}
	action := m.runs.actions.of(n.action)
	switch {
	case over:
		m.m.steps.WithLabelValues(action, row.Status.String()).Inc()
		if row.Started > 0 {
			m.m.stepTime.WithLabelValues(action).Observe(seconds(row.Started, row.Ended))
		}
	case row.Status == stepwell.StepRetrying:
		m.m.retries.WithLabelValues(action).Inc()
	case row.Status != stepwell.StepWaiting:
		return
	}
	if row.Started == 0 {
		return // no attempt has run
	}
	if row.Queued > 0 {
		m.m.dispatchTime.Observe(seconds(row.Queued, row.Started))
	}
	if m.o.Tracer != nil {
		m.o.Tracer.attempt(u, row, n)
	}
}

// seconds is the difference of two times in µs.
func seconds(from, to int64) float64 {
	return max(0, (time.Duration(to-from) * time.Microsecond).Seconds())
}
