package api

import (
	"context"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/stepwell/stepwell/meter"
)

// metrics are the operations that count.
func (s *server) metrics() {
	plain := &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
	handle(s, "metrics", s.getMetrics, func(op *huma.Operation) {
		op.Description = "As JSON, or in Prometheus's text form for a client that accepts text/plain or application/openmetrics-text."
		op.Responses["200"] = &huma.Response{Description: "OK", Content: map[string]*huma.MediaType{"application/json": {Schema: s.schemaOf(reflect.TypeFor[Metrics]())}, "text/plain": plain}}
	})
	handle(s, "metrics.prometheus", s.getPrometheus, func(op *huma.Operation) {
		op.Responses["200"] = &huma.Response{Description: "OK", Content: map[string]*huma.MediaType{"text/plain": plain}}
	})
}

// Metrics is budpipeline §4.4's answer.
type Metrics = meter.Summary

// streamed is an answer that the operation writes by itself.
type streamed struct{ Body func(huma.Context) }

func (s *server) getMetrics(ctx context.Context, _ *struct{}) (*streamed, error) {
	if meter.WantsText(callOf(ctx).request.Header.Get("Accept")) {
		return s.getPrometheus(ctx, nil)
	}
	sum, err := s.o.Meter.Summary(ctx)
	if err != nil {
		return nil, err
	}
	return &streamed{func(hc huma.Context) {
		hc.SetHeader("Content-Type", "application/json")
		hc.SetHeader("Vary", "Accept")
		if err := marshal(hc.BodyWriter(), sum); err != nil {
			s.o.Log.Debug("metrics were not sent", "error", err)
		}
	}}, nil
}

func (s *server) getPrometheus(context.Context, *struct{}) (*streamed, error) {
	return &streamed{s.passOn(s.o.Meter.Handler())}, nil
}

// passOn lets another handler answer, with the context that the guard has made.
func (s *server) passOn(h http.Handler) func(huma.Context) {
	return func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		h.ServeHTTP(w, r.WithContext(hc.Context()))
	}
}
