package api

import (
	"context"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
)

// ExecutionSource is the document that an execution runs.
type ExecutionSource struct {
	Document string `json:"document" doc:"The text, with its comments. Values of secrets in it are ***."`
	Origin   string `json:"origin" enum:"inline,version,definition" doc:"inline: as the execution was started with it. version: as the version of the stored pipeline has it. definition: the text was not kept (executions of earlier releases, of single actions, of pipelines that are deleted, of texts above 4 MiB), and this is the execution's definition written as YAML, with defaults and without comments."`
	Format   string `json:"format" enum:"yaml,json"`
	Pipeline string `json:"pipeline_id,omitempty" doc:"The stored pipeline whose version it is."`
	Version  int    `json:"version,omitempty"`
	// Steps are missing where the text cannot be read.
	Steps []SourceLines `json:"steps" nullable:"false" doc:"The lines of each step, in the order of the text; of at most 100,000 steps."`
}

// SourceLines are where a step stands in its document.
type SourceLines struct {
	Step string `json:"step_id" doc:"As in the list of steps; an iteration stands where its group does: without the number. group.id, finally.id."`
	From int    `json:"from" doc:"Its first line, from 1."`
	To   int    `json:"to" doc:"Its last line."`
}

func (s *server) getSource(ctx context.Context, in *ExecutionPath) (*answer[ExecutionSource], error) {
	x, err := s.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	out := ExecutionSource{Steps: []SourceLines{}}
	if x.Workflow != "" && x.WorkflowVersion > 0 {
		v, err := s.o.Pipelines.Version(ctx, x.Workflow, x.WorkflowVersion)
		switch {
		case err == nil:
			out.Document, out.Origin, out.Pipeline, out.Version = v.Document, "version", x.Workflow, x.WorkflowVersion
		case stepwell.CodeOf(err) != stepwell.CodeNotFound:
			return nil, err
		}
	}
	if out.Origin == "" {
		body, err := s.o.Store.Definition(ctx, x.Definition)
		if err != nil {
			return nil, err
		}
		rest, text, err := definition.Untold(body)
		if err != nil {
			return nil, err
		}
		if out.Document, out.Origin = text, "inline"; text == "" {
			out.Origin = "definition"
			if out.Document, err = definition.YAML(s.json(x.ID, rest)); err != nil {
				return nil, err
			}
		}
	}
	out.Document = s.text(x.ID, out.Document)
	if out.Format = "yaml"; strings.HasPrefix(strings.TrimLeft(out.Document, "\ufeff \t\r\n"), "{") {
		out.Format = "json"
	}
	for _, l := range definition.StepLines([]byte(out.Document)) {
		out.Steps = append(out.Steps, SourceLines(l))
	}
	return reply(out, nil)
}
