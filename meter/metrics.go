package meter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are counted as events happen.
type metrics struct {
	started, ended, breached                    *prometheus.CounterVec
	retries, steps, requests, daprEvents        *prometheus.CounterVec
	commitFailures                              prometheus.Counter
	executionTime, stepTime, requestTime        *prometheus.HistogramVec
	startTime, dispatchTime, commitTime, lagged prometheus.Histogram
	commitSize                                  prometheus.Histogram
}

// The bounds of histograms, in seconds: of quick operations, and of long ones.
var (
	quick = []float64{.001, .0025, .005, .01, .025, .05, .1, .2, .5, 1, 2.5, 5, 10, 60}
	long  = []float64{.01, .1, .5, 1, 5, 15, 60, 300, 900, 3600, 14400, 86400}
	sizes = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000}
)

func (m *metrics) define() {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	times := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	one := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	}
	m.started = counter("stepwell_executions_started_total", "Executions that this process has started.", "pipeline", "trigger")
	m.ended = counter("stepwell_executions_ended_total", "Executions that have ended.", "pipeline", "status")
	m.breached = counter("stepwell_executions_breached_total", "Executions that took longer than their pipeline promises; promise is expected or maximum.", "pipeline", "promise")
	m.executionTime = times("stepwell_execution_seconds", "From the start of an execution to its end.", long, "pipeline")
	m.startTime = one("stepwell_execution_start_seconds", "From the request of an execution to its start, held ones included.", quick)
	m.steps = counter("stepwell_steps_ended_total", "Steps that have ended. A step that was never dispatched has the action none.", "action", "status")
	m.retries = counter("stepwell_step_retries_total", "Attempts that failed and are retried.", "action")
	m.stepTime = times("stepwell_step_seconds", "How long the last attempt of a step ran.", long, "action")
	m.dispatchTime = one("stepwell_step_dispatch_seconds", "From the moment at which a step could run to that at which a worker ran it.", quick)
	m.commitTime = one("stepwell_commit_seconds", "How long a commit took.", quick)
	m.commitSize = one("stepwell_commit_executions", "Executions in one commit.", sizes)
	m.commitFailures = prometheus.NewCounter(prometheus.CounterOpts{Name: "stepwell_commit_failures_total", Help: "Commits that the store has refused."})
	m.lagged = one("stepwell_schedule_lag_seconds", "From the time that a schedule names to the start of its execution.", quick)
	m.requests = counter("stepwell_http_requests_total", "Requests that were answered.", "route", "method", "status")
	m.daprEvents = counter("stepwell_dapr_events_total", "Messages of the sidecar's topics, by the answer: SUCCESS, RETRY, or DROP for what can never be read.", "answer")
	m.requestTime = times("stepwell_http_request_seconds", "How long requests took, streams left out.", quick, "route")
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.started, m.ended, m.breached, m.executionTime, m.startTime, m.steps, m.retries, m.stepTime, m.dispatchTime, m.commitTime,
		m.commitSize, m.commitFailures, m.lagged, m.requests, m.requestTime, m.daprEvents}
}

// ScheduleLag notes how late a schedule has fired.
func (m *Meter) ScheduleLag(d time.Duration) { m.m.lagged.Observe(max(0, d.Seconds())) }

// DaprEvent counts a message of a topic by the answer to it.
func (m *Meter) DaprEvent(answer string) { m.m.daprEvents.WithLabelValues(answer).Inc() }

// labels are the values of a label that have series of their own.
type labels struct {
	most  int
	known map[string]struct{}
}

// of gives the value for a label: "other" when there are too many.
func (l *labels) of(value string) string {
	if _, ok := l.known[value]; ok {
		return value
	}
	if len(l.known) >= l.most {
		return "other"
	}
	l.known[value] = struct{}{}
	return value
}
