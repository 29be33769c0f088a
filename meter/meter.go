// Package meter measures: Prometheus metrics, the figures of budpipeline §4.4, and OpenTelemetry traces.
//
// Its sources are the conductor's updates (Observe), a store that times its commits (Timed), the API's requests
// (Request) and small interfaces that are read on demand. Label values are
// bounded: pipelines and actions beyond Options.MaxLabels count as "other". Names of metrics are stable from
// version 1 on; docs/grafana-dashboard.json shows them.
package meter

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/store"
)

// Totals counts executions; a store does.
type Totals interface {
	Totals(ctx context.Context, since time.Time) (*store.Totals, error)
}

// Options configure a Meter. An option left out is not measured.
type Options struct {
	// Totals answers the figures of Summary.
	Totals Totals
	// Conductor counts the executions in memory.
	Conductor interface{ Stats() conductor.Stats }
	// Streams counts subscribers; feed.Hub does.
	Streams interface{ Subscriptions() int }
	// QueueDepth is how many steps wait for a worker.
	QueueDepth func() int
	// Upcoming is how many schedules are active, and when the next one fires (zero: none does).
	Upcoming func() (active int, next time.Time)
	// StateAway reports whether the server with the progress of projects does not answer. Defaults to there being none.
	StateAway func() bool
	// Tracer turns executions into traces. Defaults to none.
	Tracer *Tracer
	// Version of the program, for stepwell_build_info.
	Version string
	// MaxLabels bounds the pipelines and the actions that have series of their own. Defaults to 200.
	MaxLabels int
}

// Meter measures one process. Its methods may be called from any goroutine.
type Meter struct {
	o        Options
	registry *prometheus.Registry
	m        metrics
	runs     runs
	summary  summary
}

// New makes a meter with a registry of its own.
func New(o Options) *Meter {
	o.MaxLabels = cmp.Or(max(o.MaxLabels, 0), 200)
	m := &Meter{o: o, registry: prometheus.NewRegistry(), runs: newRuns(o.MaxLabels)}
	m.m.define()
	m.registry.MustRegister(m.m.all()...)
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.gauges()
	return m
}

// gauges are computed at each read of the metrics.
func (m *Meter) gauges() {
	gauge := func(name, help string, f func() float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f))
	}
	gauge("stepwell_steps_in_flight", "Steps that are dispatched and have not ended.", func() float64 { return float64(m.runs.inFlight()) })
	if c := m.o.Conductor; c != nil {
		gauge("stepwell_executions_active", "Executions in memory.", func() float64 { return float64(c.Stats().Active) })
		gauge("stepwell_executions_running", "Executions that were admitted and have not ended.", func() float64 { return float64(c.Stats().Running) })
		gauge("stepwell_executions_pending", "Executions that are held until there is room.", func() float64 { return float64(c.Stats().Pending) })
	}
	if s := m.o.Streams; s != nil {
		gauge("stepwell_stream_clients", "Clients that follow executions, over WebSockets and server-sent events.", func() float64 { return float64(s.Subscriptions()) })
	}
	if depth := m.o.QueueDepth; depth != nil {
		gauge("stepwell_queue_depth", "Steps that wait for a worker.", func() float64 { return float64(depth()) })
	}
	if upcoming := m.o.Upcoming; upcoming != nil {
		gauge("stepwell_schedules_active", "Schedules that will fire.", func() float64 { n, _ := upcoming(); return float64(n) })
	}
	if away := m.o.StateAway; away != nil {
		gauge("stepwell_state_up", "1 while the Redis server with the progress of projects answers, 0 while the database answers for it.", func() float64 {
			if away() {
				return 0
			}
			return 1
		})
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "stepwell_build_info", Help: "Always 1; the label has the version.", ConstLabels: prometheus.Labels{"version": m.o.Version}})
	info.Set(1)
	m.registry.MustRegister(info)
}

// Handler serves the metrics as text for Prometheus.
func (m *Meter) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 10})
}

// Gatherer returns the metrics for another server of them.
func (m *Meter) Gatherer() prometheus.Gatherer { return m.registry }
