package api

import (
	"context"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stepwell/stepwell/pipelinerun"
	"github.com/stepwell/stepwell/store"
)

// UsageSum is what models have used and cost in all attempts of all executions of something, the executions that are deleted by now included.
type UsageSum = pipelinerun.Usage

// usage serves a sum of usage. id finds what it is a sum of.
func usage[I any](s *server, operation, kind string, id func(ctx context.Context, in *I) (string, error), adjust ...func(*huma.Operation)) {
	s.names[reflect.TypeFor[UsageSum]()] = "UsageSum"
	handle(s, operation, func(ctx context.Context, in *I) (*answer[UsageSum], error) {
		of, err := id(ctx, in)
		if err != nil {
			return nil, err
		}
		sum, err := s.o.Store.UsageOf(ctx, kind, of)
		return reply(pipelinerun.UsageOf(sum), err)
	}, adjust...)
}

// usage serves the sum of an object of the kind.
func (k *kindOf[D, V, M, S, F]) usage(operation, kind string) {
	usage(k.server, operation, kind, func(ctx context.Context, _ *struct{}) (string, error) {
		_, id, _, err := k.found(ctx)
		return id, err
	}, k.server.named(k.kind.Param))
}

// usage serves the sum of a version.
func (p *pipelines) usage() {
	usage(p.server, "pipeline.version.usage", store.UsageOfVersion, func(ctx context.Context, in *VersionPath) (string, error) {
		v, err := p.o.Pipelines.Version(ctx, in.ID, in.Version)
		if err != nil {
			return "", err
		}
		return store.VersionID(v.Pipeline, v.Version), nil
	})
}
