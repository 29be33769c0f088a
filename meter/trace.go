package meter

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// TraceOptions configure a Tracer.
type TraceOptions struct {
	// Endpoint is the URL of an OpenTelemetry collector, such as http://localhost:4318/v1/traces. Required without Exporter.
	Endpoint string
	// Headers go with every request to the endpoint. Defaults to none.
	Headers map[string]string
	// Exporter takes the spans instead.
	Exporter sdktrace.SpanExporter
	// Service is the name under which the spans appear. Defaults to "stepwell".
	Service string
	// Version of the program.
	Version string
}

// Tracer makes a trace of every execution: its id is that of the execution (a UUID), the root span is the execution,
// and every attempt of a step is a span under it, with the times at which it really ran. Nothing of it is
// kept in memory while the execution goes on, and the ids follow from that of the execution, so a trace
// survives a restart of the server in one piece. Spans that the collector does not take in time are dropped.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer

	mu    sync.Mutex
	links map[string]trace.SpanContext // by execution
	order []string                     // of links, oldest first
	ended []store.Execution            // whose root spans are due
}

// linkWait is how long after its end an execution may still get a link.
const linkWait = time.Second

// maxWaiting bounds the links and the ended executions that are kept.
const maxWaiting = 10_000

// NewTracer makes a tracer. Spans are sent while Run runs.
func NewTracer(ctx context.Context, o TraceOptions) (*Tracer, error) {
	if o.Service == "" {
		o.Service = "stepwell"
	}
	if o.Exporter == nil {
		if o.Endpoint == "" {
			return nil, stepwell.Invalid("for example http://localhost:4318/v1/traces", "traces need the address of a collector")
		}
		c, err := newCollector(o.Endpoint, o.Headers)
		if err != nil {
			return nil, err
		}
		if o.Exporter, err = otlptrace.New(ctx, c); err != nil {
			return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "traces", Err: err}
		}
	}
	about := resource.NewSchemaless(attribute.String("service.name", o.Service), attribute.String("service.version", o.Version))
	p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(o.Exporter), sdktrace.WithResource(about), sdktrace.WithIDGenerator(ids{}), sdktrace.WithSampler(sdktrace.AlwaysSample()))
	return &Tracer{provider: p, tracer: p.Tracer("github.com/stepwell/stepwell"), links: map[string]trace.SpanContext{}}, nil
}

// Run makes the spans of ended executions until ctx ends; then it sends the rest, for a few seconds at most. It is
// called once.
func (t *Tracer) Run(ctx context.Context) error {
	tick := time.NewTicker(linkWait / 2)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			t.settle(time.Now().Add(-linkWait))
		case <-ctx.Done():
			t.settle(time.Now().Add(time.Hour))
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			return t.provider.Shutdown(last)
		}
	}
}

// Link records the request that led to an execution: header is its W3C traceparent. A malformed one is ignored.
func (t *Tracer) Link(execution, header string) {
	from := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": header}))
	if !from.IsValid() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.links[execution]; ok {
		return
	}
	if len(t.order) >= maxWaiting {
		delete(t.links, t.order[0])
		t.order = t.order[1:]
	}
	t.links[execution] = from
	t.order = append(t.order, execution)
}

// execution queues an ended execution. When too many wait, the oldest gets its span at once.
func (t *Tracer) execution(x *store.Execution) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.ended) >= maxWaiting {
		t.root(&t.ended[0])
		t.ended = t.ended[1:]
	}
	ended := *x
	ended.Params, ended.Outputs, ended.Key, ended.KeyHash = nil, nil, "", nil // may be large
	t.ended = append(t.ended, ended)
}

// settle makes the root spans of executions that ended before a time.
func (t *Tracer) settle(before time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for n < len(t.ended) && t.ended[n].Ended.Before(before) {
		t.root(&t.ended[n])
		n++
	}
	t.ended = append(t.ended[:0:0], t.ended[n:]...)
}

// root makes the span of an execution. The caller holds t.mu.
func (t *Tracer) root(x *store.Execution) {
	id, err := uuid.Parse(x.ID)
	if err != nil {
		return // only ids of ours make traces
	}
	began := x.Started
	if began.IsZero() {
		began = x.Created
	}
	o := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithTimestamp(began), trace.WithAttributes(attribute.String("stepwell.execution", x.ID),
		attribute.String("stepwell.pipeline", x.Pipeline), attribute.String("stepwell.trigger", x.Trigger), attribute.String("stepwell.status", x.Status.String()))}
	for key, value := range map[string]string{"stepwell.parent": x.Parent, "stepwell.workflow": x.Workflow, "stepwell.job": x.Job} {
		if value != "" {
			o = append(o, trace.WithAttributes(attribute.String(key, value)))
		}
	}
	if from, ok := t.links[x.ID]; ok {
		o = append(o, trace.WithLinks(trace.Link{SpanContext: from}))
		delete(t.links, x.ID)
	}
	_, span := t.tracer.Start(context.WithValue(context.Background(), traceKey{}, id), x.Pipeline, o...)
	if x.Status != stepwell.ExecutionCompleted {
		text := x.Status.String()
		if x.Failure != nil {
			text = x.Failure.Message
		}
		span.SetStatus(codes.Error, text)
	}
	span.End(trace.WithTimestamp(x.Ended))
}

// attempt makes the span of an ended attempt.
func (t *Tracer) attempt(u *conductor.Update, row *engine.StepRow, n name) {
	id, err := uuid.Parse(u.Execution.ID)
	if err != nil {
		return
	}
	parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID(id), SpanID: rootID(id), TraceFlags: trace.FlagsSampled})
	key, end := n.key, row.Ended
	if key == "" {
		key = "step"
	}
	if end == 0 { // it is tried again, or waits
		end = u.At
	}
	own := trace.SpanID(stepwell.SpanID(u.Execution.ID, row.Idx, row.Attempt, row.Started))
	_, span := t.tracer.Start(context.WithValue(trace.ContextWithSpanContext(context.Background(), parent), spanKey{}, own), key, trace.WithTimestamp(time.UnixMicro(row.Started)),
		trace.WithAttributes(attribute.String("stepwell.step", n.key), attribute.String("stepwell.action", n.action), attribute.Int("stepwell.attempt", row.Attempt),
			attribute.String("stepwell.status", row.Status.String()), attribute.String("stepwell.worker", row.Worker)))
	if row.Error != nil {
		span.SetAttributes(attribute.String("stepwell.error_code", string(row.Error.Code)))
		span.SetStatus(codes.Error, row.Error.Message)
	}
	span.End(trace.WithTimestamp(time.UnixMicro(max(end, row.Started))))
}

// spanKey is the context's key for the id of an attempt's span.
type spanKey struct{}

// traceKey is the context's key for the execution whose trace begins.
type traceKey struct{}

// ids gives a trace the id of its execution. Its root span's id follows from that, so that spans which
// were sent before a restart have the same parent as those after it.
type ids struct{}

// NewIDs implements sdktrace.IDGenerator.
func (g ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	id, ok := ctx.Value(traceKey{}).(uuid.UUID)
	if !ok {
		_, _ = rand.Read(id[:]) // it never fails
	}
	return trace.TraceID(id), rootID(id)
}

// NewSpanID implements sdktrace.IDGenerator.
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) (s trace.SpanID) {
	if own, ok := ctx.Value(spanKey{}).(trace.SpanID); ok {
		return own
	}
	_, _ = rand.Read(s[:])
	return s
}

// rootID is the id of an execution's own span, never zero.
func rootID(id uuid.UUID) (s trace.SpanID) {
	mixed := binary.BigEndian.Uint64(id[:8])*0x9e3779b97f4a7c15 ^ binary.BigEndian.Uint64(id[8:])
	binary.BigEndian.PutUint64(s[:], mixed|1)
	return s
}
