package meter_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/meter"
)

// kept is an exporter that keeps the spans after its end.
type kept struct {
	*tracetest.InMemoryExporter
	spans tracetest.SpanStubs
}

func (k *kept) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	k.spans = append(k.spans, tracetest.SpanStubsFromReadOnlySpans(spans)...)
	return nil
}

func value(s tracetest.SpanStub, key string) string {
	for _, a := range s.Attributes {
		if a.Key == attribute.Key(key) {
			return a.Value.String()
		}
	}
	return ""
}

func TestTrace(t *testing.T) {
	out := &kept{InMemoryExporter: tracetest.NewInMemoryExporter()}
	tracer, err := meter.NewTracer(t.Context(), meter.TraceOptions{Exporter: out})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- tracer.Run(ctx) }()
	m := meter.New(meter.Options{Tracer: tracer})
	const from = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	linked := false
	rows, steps := play(t, m, func(id string) {
		if !linked {
			tracer.Link(id, "nonsense")
			tracer.Link(id, from)
			linked = true
		}
	}, good(), bad())
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if len(out.spans) != 6 {
		t.Fatalf("%d spans, want 2 roots and 4 attempts", len(out.spans))
	}
	for i, x := range rows {
		var attempts []tracetest.SpanStub
		var root tracetest.SpanStub
		for _, s := range out.spans {
			switch {
			case s.SpanContext.TraceID().String() != strings.ReplaceAll(x.ID, "-", ""):
			case s.Parent.IsValid():
				attempts = append(attempts, s)
			default:
				root = s
			}
		}
		if root.Name != x.Pipeline || !root.StartTime.Equal(x.Started) || !root.EndTime.Equal(x.Ended) || (root.Status.Code == codes.Error) != (x.Status != stepwell.ExecutionCompleted) {
			t.Errorf("root of %s: %+v", x.Pipeline, root)
		}
		if n := len(root.Links); (n == 1) != (i == 0) {
			t.Errorf("%s has %d links", x.Pipeline, n)
		} else if n == 1 && root.Links[0].SpanContext.TraceID().String() != from[3:35] {
			t.Errorf("linked to %s", root.Links[0].SpanContext.TraceID())
		}
		slices.SortFunc(attempts, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
		for j, s := range attempts {
			if s.Parent.SpanID() != root.SpanContext.SpanID() || s.EndTime.Before(s.StartTime) || s.StartTime.Before(x.Created) || s.EndTime.After(x.Ended.Add(time.Millisecond)) {
				t.Errorf("attempt %d of %s: parent %s, from %v to %v", j, x.Pipeline, s.Parent.SpanID(), s.StartTime, s.EndTime)
			}
		}
		if i == 1 { // bad
			if len(attempts) != 1 || attempts[0].Name != "a" || attempts[0].Status.Code != codes.Error || !strings.Contains(attempts[0].Status.Description, "never works") {
				t.Errorf("attempts of bad: %+v", attempts)
			}
			continue
		}
		if len(attempts) != 3 || value(attempts[1], "stepwell.attempt") != "1" || attempts[1].Status.Code != codes.Error || value(attempts[1], "stepwell.action") != "t.flaky" ||
			value(attempts[2], "stepwell.attempt") != "2" || attempts[2].Status.Code == codes.Error {
			t.Fatalf("attempts of good: %+v", attempts)
		}
		b := steps[i][1]
		if sent := stepwell.Traceparent(x.ID, b.Idx, 2, b.Started); sent[36:52] != attempts[2].SpanContext.SpanID().String() {
			t.Errorf("the attempt's calls carried %s, its span is %s", sent, attempts[2].SpanContext.SpanID())
		}
		if attempts[2].Name != "b" || attempts[2].StartTime.UnixMicro() != b.Started || attempts[2].EndTime.UnixMicro() != b.Ended {
			t.Errorf("the last attempt is from %v to %v, the step's row says %d to %d", attempts[2].StartTime, attempts[2].EndTime, b.Started, b.Ended)
		}
	}
}

func TestTracerNeedsACollector(t *testing.T) {
	if _, err := meter.NewTracer(t.Context(), meter.TraceOptions{}); stepwell.CodeOf(err) != stepwell.CodeInvalid || stepwell.HintOf(err) == "" {
		t.Errorf("without an endpoint: %v", err)
	}
}
