package api

import (
	"context"
	"maps"
	"slices"

	"github.com/stepwell/stepwell/engine"
)

// mostForecast bounds each list of a preview.
const mostForecast = 1000

// PreviewAnswer previews a retry or a restart. Iterations in a row are one entry: "loop[4..9]".
type PreviewAnswer struct {
	Steps    []string         `json:"steps" nullable:"false" doc:"Keys of all that would run: repeated and again together."`
	Repeated []string         `json:"repeated" nullable:"false" doc:"What did not complete, or was asked for. A step of which only parts are repeated is named by these."`
	Again    []AgainStep      `json:"again" nullable:"false" doc:"What runs again because of another step."`
	Kept     []string         `json:"kept" nullable:"false" doc:"What is taken over."`
	Items    map[string]int64 `json:"items" nullable:"false" doc:"How many items failed at stream steps and are retried, by step. Of a stream that was stopped, what had not come yet is tried too."`
	Counts   ForecastCounts   `json:"counts" doc:"How many entries there are; each list has the first 1,000."`
}

// AgainStep is a step that runs again because of another one.
type AgainStep struct {
	Step    string `json:"step_id"`
	Because Ref    `json:"because" doc:"The step that it comes after; null for steps under finally, which run at every end."`
}

// ForecastCounts are the lengths of a preview's lists.
type ForecastCounts struct {
	Repeated int   `json:"repeated"`
	Again    int   `json:"again"`
	Kept     int   `json:"kept"`
	Items    int64 `json:"items" doc:"Failed items of all stream steps together."`
}

type previewRestartInput struct {
	ExecutionPath
	Step       string `query:"step_id" required:"true" minLength:"1" maxLength:"300"`
	FailedOnly bool   `query:"failed_only" doc:"As with the restart itself."`
}

func (s *server) previewRestart(ctx context.Context, in *previewRestartInput) (*answer[PreviewAnswer], error) {
	return s.preview(ctx, in.ID, func(id string) (*engine.Forecast, error) {
		return s.o.Forecast.PreviewRestart(ctx, id, in.Step, in.FailedOnly)
	})
}

type previewRetryInput struct {
	ExecutionPath
	From string `query:"from_step" maxLength:"300"`
}

func (s *server) previewRetry(ctx context.Context, in *previewRetryInput) (*answer[PreviewAnswer], error) {
	return s.preview(ctx, in.ID, func(id string) (*engine.Forecast, error) { return s.o.Forecast.PreviewRetry(ctx, id, in.From) })
}

func (s *server) preview(ctx context.Context, id string, ask func(id string) (*engine.Forecast, error)) (*answer[PreviewAnswer], error) {
	x, err := s.find(ctx, id)
	if err != nil {
		return nil, err
	}
	fc, err := ask(x.ID)
	if err != nil {
		return nil, err
	}
	return reply(Preview(fc), nil)
}

// Preview is how a forecast is shown.
func Preview(fc *engine.Forecast) PreviewAnswer {
	out := PreviewAnswer{Counts: ForecastCounts{Repeated: len(fc.Repeated), Again: len(fc.Again), Kept: len(fc.Kept)}, Steps: []string{}, Again: []AgainStep{},
		Repeated: append([]string{}, fc.Repeated[:min(len(fc.Repeated), mostForecast)]...), Kept: append([]string{}, fc.Kept[:min(len(fc.Kept), mostForecast)]...)}
	out.Steps = append(out.Steps, out.Repeated...)
	for _, a := range fc.Again[:min(len(fc.Again), mostForecast)] {
		out.Again = append(out.Again, AgainStep{a.Step, Ref(a.Because)})
		if len(out.Steps) < mostForecast {
			out.Steps = append(out.Steps, a.Step)
		}
	}
	out.Items = map[string]int64{}
	for _, step := range slices.Sorted(maps.Keys(fc.Items)) {
		if out.Counts.Items += fc.Items[step]; len(out.Items) < mostForecast {
			out.Items[step] = fc.Items[step]
		}
	}
	return out
}
