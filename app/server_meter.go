package app

import (
	"context"
	"strings"
	"time"

	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/meter"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/trigger"
)

// Telemetry says where traces go.
type Telemetry struct {
	// Endpoint is the URL of an OpenTelemetry collector, such as http://localhost:4318. Defaults to no traces.
	Endpoint string
	// Service is the name of the service in them. Defaults to "stepwell".
	Service string
}

// tracesPath is where a collector takes traces.
const tracesPath = "/v1/traces"

// buildMeter makes the meter, which the rest is built around: it measures from the first commit on.
func (s *Server) buildMeter(ctx context.Context) (err error) {
	t := &s.o.Telemetry
	if t.Endpoint != "" {
		endpoint := strings.TrimSuffix(t.Endpoint, "/")
		if !strings.HasSuffix(endpoint, tracesPath) {
			endpoint += tracesPath
		}
		s.tracer, err = meter.NewTracer(ctx, meter.TraceOptions{Endpoint: endpoint, Service: t.Service, Version: s.o.Version})
		if err != nil {
			return err
		}
	}
	var away func() bool
	if s.o.State.URL != "" {
		away = measured{s}.stateAway
	}
	s.meter = meter.New(meter.Options{StateAway: away, Totals: measured{s}, Conductor: measured{s}, Streams: measured{s}, QueueDepth: func() int { return s.queue.Len() }, Upcoming: measured{s}.upcoming,
		Tracer: s.tracer, Version: s.o.Version})
	s.o.wrap = s.meter.Timed
	return nil
}

// measured is read by the meter on demand, when the server is complete.
type measured struct{ s *Server }

func (m measured) Totals(ctx context.Context, since time.Time) (*store.Totals, error) {
	return m.s.Store.Totals(ctx, since)
}

func (m measured) Stats() conductor.Stats { return m.s.Conductor.Stats() }
func (m measured) Subscriptions() int     { return m.s.hub.Subscriptions() }

func (m measured) upcoming() (int, time.Time) {
	st := m.s.schedules.Stats()
	return st.Active, st.Next
}

// fired is told of every start by a schedule.
func (s *Server) fired(f trigger.Fired) {
	if f.Err == nil && s.meter != nil {
		s.meter.ScheduleLag(f.Late)
	}
}

// sendTraces is the loop that sends traces. They are no reason to stop for.
func (s *Server) sendTraces(ctx context.Context) error {
	if err := s.tracer.Run(ctx); err != nil {
		s.log.Warn("the last traces were not sent", "error", err)
	}
	return nil
}

// requested is told of every request; its route is the name of the operation. Streams last as long as a client
// wants them to.
func (s *Server) requested(operation, method string, status int, took time.Duration) {
	s.meter.Request(operation, method, status, took, operation == "execution.stream" || operation == "execution.events" || operation == "project.events")
}

// linked is told which trace an execution was started by.
func (s *Server) linked(execution, traceparent string) {
	if s.tracer != nil {
		s.tracer.Link(execution, traceparent)
	}
}
