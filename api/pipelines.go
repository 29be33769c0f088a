package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/pipeline"
)

// pipelines are the operations on stored pipelines.
func (s *server) pipelines() {
	handle(s, "pipeline.create", s.createPipeline)
	handle(s, "pipeline.list", s.listPipelines, listed[Pipeline](s, "PipelineList", "pipelines"))
	handle(s, "pipeline.validate", s.validatePipeline)
	handle(s, "pipeline.get", s.getPipeline)
	handle(s, "pipeline.update", s.updatePipeline)
	handle(s, "pipeline.delete", s.deletePipeline)
	handle(s, "pipeline.versions", s.listVersions, hides[PipelineVersion](s), listed[PipelineVersion](s, "VersionList", "versions"))
	handle(s, "pipeline.version", s.getVersion, hides[PipelineVersion](s))
	handle(s, "pipeline.diff", s.diffVersions)
}

// Document is a pipeline: its text (YAML or JSON), or the object itself.
type Document []byte

// UnmarshalJSON reads a string or an object.
func (d *Document) UnmarshalJSON(b []byte) error {
	*d = nil
	switch b = bytes.TrimSpace(b); {
	case string(b) == "null":
		return nil
	case len(b) > 0 && b[0] == '"':
		var text string
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
		*d = Document(text)
		return nil
	case len(b) > 0 && b[0] == '{':
		*d = bytes.Clone(b)
		return nil
	}
	return fmt.Errorf("a pipeline is a text or an object")
}

// MarshalJSON writes an object as it is, and any other text as a string.
func (d Document) MarshalJSON() ([]byte, error) {
	if t := bytes.TrimSpace(d); len(t) > 0 && t[0] == '{' && json.Valid(t) {
		return t, nil
	}
	return json.Marshal(string(d))
}

// Schema is for the description.
func (Document) Schema(huma.Registry) *huma.Schema {
	example := map[string]any{"name": "hello", "steps": []any{map[string]any{"id": "say", "action": "util.log", "params": map[string]any{"message": "Hello"}}}}
	return &huma.Schema{Description: "A pipeline: its text in YAML or JSON, or the object itself.", Examples: []any{example},
		OneOf: []*huma.Schema{{Type: "string"}, {Type: "object", AdditionalProperties: true}}}
}

// The shapes of stored pipelines.
type (
	Pipeline        = pipeline.Pipeline
	PipelineVersion = pipeline.Version
	PipelineDiff    = pipeline.Diff
	PipelineList    = Page[Pipeline]
	ListPipelines   = pipeline.Filter
	VersionList     = Page[PipelineVersion]
)

// PipelineSaved is a stored pipeline with the warnings about its definition.
type PipelineSaved struct {
	Pipeline
	Problems []Detail `json:"problems" nullable:"false" doc:"Warnings, and for a draft the errors."`
}

// PipelineDetail is a stored pipeline with its newest document.
type PipelineDetail struct {
	Pipeline
	Document string `json:"document" doc:"The newest version's text, as it was given."`
}

// NewPipeline is a pipeline to be stored, under the name that its document gives.
type NewPipeline struct {
	Document Document `json:"document"`
	Draft    bool     `json:"draft,omitempty" doc:"Store it although it has problems."`
	Note     string   `json:"note,omitempty" maxLength:"1000" doc:"Why, for the list of versions."`
}

type createPipelineInput struct{ Body NewPipeline }

func (s *server) createPipeline(ctx context.Context, in *createPipelineInput) (*made[PipelineSaved], error) {
	if err := s.fits(in.Body.Document); err != nil {
		return nil, err
	}
	p, problems, err := s.o.Pipelines.Create(ctx, pipeline.Draft{Document: in.Body.Document, Draft: in.Body.Draft, Note: in.Body.Note, Author: access.Of(ctx).Actor(), Role: access.Of(ctx).Role.String()})
	if err != nil {
		return nil, withProblems(err, problems)
	}
	callOf(ctx).object = p.ID
	return &made[PipelineSaved]{Status: statusOf(true), Location: prefix + "/pipelines/" + p.ID, ETag: etag(p.Revision),
		Body: PipelineSaved{*p, detailsOf(problems)}}, nil
}

// withProblems adds the problems to an error, unless it has them.
func withProblems(err error, problems definition.Problems) error {
	if problems.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, problems)
}

func (s *server) listPipelines(ctx context.Context, in *ListPipelines) (*answer[PipelineList], error) {
	after, err := cursorOf("pipelines", in.Cursor)
	if err != nil {
		return nil, err
	}
	limit := in.Limit
	in.Cursor, in.Limit = after, limit+1
	rows, err := s.o.Pipelines.List(ctx, in)
	if err != nil {
		return nil, err
	}
	rows, next := page(rows, limit, func(p *Pipeline) string { return p.ID })
	return reply(PipelineList{Items: rows, Next: cursorTo("pipelines", next), name: "pipelines"}, nil)
}

// PipelinePath is the parameter of operations on one.
type PipelinePath struct {
	ID string `path:"pipeline_id" maxLength:"255" doc:"Its id, or its name."`
}

type getPipelineInput struct {
	PipelinePath
	IfNoneMatch string `header:"If-None-Match" maxLength:"2000"`
}

func (s *server) getPipeline(ctx context.Context, in *getPipelineInput) (*tagged[PipelineDetail], error) {
	p, err := s.o.Pipelines.Pipeline(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if unchanged(in.IfNoneMatch, p.Revision) {
		return nil, notModified(p.Revision)
	}
	v, err := s.o.Pipelines.Version(ctx, p.ID, p.Version)
	if err != nil {
		return nil, err
	}
	return &tagged[PipelineDetail]{etag(p.Revision), PipelineDetail{*p, v.Document}}, nil
}

// PipelineChange is a change of a stored pipeline. Omitted fields stay as they are.
type PipelineChange struct {
	Document Document `json:"document,omitempty"`
	Draft    bool     `json:"draft,omitempty" doc:"Store the document although it has problems."`
	Note     string   `json:"note,omitempty" maxLength:"1000"`
	Archived *bool    `json:"archived,omitempty" doc:"Takes it out of use, or back into it."`
}

type updatePipelineInput struct {
	PipelinePath
	IfMatch string `header:"If-Match" maxLength:"2000"`
	Body    PipelineChange
}

func (s *server) updatePipeline(ctx context.Context, in *updatePipelineInput) (*tagged[PipelineSaved], error) {
	p, err := s.o.Pipelines.Pipeline(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	callOf(ctx).object = p.ID
	if err := s.fits(in.Body.Document); err != nil {
		return nil, err
	}
	if in.Body.Document == nil && in.Body.Archived == nil {
		return nil, stepwell.Invalid("give document, archived or both", "there is nothing to change")
	}
	var problems definition.Problems
	p, err = change(in.IfMatch, p, func(p *pipeline.Pipeline) int64 { return p.Revision }, func(revision int64) (*pipeline.Pipeline, error) {
		return s.savePipeline(ctx, p.ID, &in.Body, revision, &problems)
	}, func() (*pipeline.Pipeline, error) { return s.o.Pipelines.Pipeline(ctx, p.ID) })
	if err != nil {
		return nil, withProblems(err, problems)
	}
	return &tagged[PipelineSaved]{etag(p.Revision), PipelineSaved{*p, detailsOf(problems)}}, nil
}

// savePipeline takes it out of the archive first, and puts it there last.
func (s *server) savePipeline(ctx context.Context, id string, c *PipelineChange, revision int64, problems *definition.Problems) (p *pipeline.Pipeline, err error) {
	if c.Archived != nil && !*c.Archived {
		if p, err = s.o.Pipelines.Archive(ctx, id, false, revision); err != nil {
			return nil, err
		}
		revision = p.Revision
	}
	if c.Document != nil {
		p, *problems, err = s.o.Pipelines.Update(ctx, id, pipeline.Draft{Document: c.Document, Draft: c.Draft, Note: c.Note, Author: access.Of(ctx).Actor(), Role: access.Of(ctx).Role.String()}, revision)
		if err != nil {
			return nil, err
		}
		revision = p.Revision
	}
	if c.Archived != nil && *c.Archived {
		return s.o.Pipelines.Archive(ctx, id, true, revision)
	}
	return p, nil
}

type deletePipelineInput struct {
	PipelinePath
	IfMatch string `header:"If-Match" maxLength:"2000"`
}

func (s *server) deletePipeline(ctx context.Context, in *deletePipelineInput) (*struct{}, error) {
	p, err := s.o.Pipelines.Pipeline(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	callOf(ctx).object = p.ID
	return remove(in.IfMatch, p.Revision, func(revision int64) error { return s.o.Pipelines.Delete(ctx, p.ID, revision) })
}

// ValidateRequest asks for the problems of a pipeline.
type ValidateRequest struct {
	Document Document `json:"document"`
}

// Validation lists the problems of a pipeline.
type Validation struct {
	Valid    bool     `json:"valid"`
	Name     string   `json:"name"`
	Problems []Detail `json:"problems" nullable:"false" doc:"Errors and warnings, in order of the document, and behind them warnings of steps that the policy denies to what the caller writes."`
}

type validateInput struct{ Body ValidateRequest }

func (s *server) validatePipeline(ctx context.Context, in *validateInput) (*answer[Validation], error) {
	if err := s.fits(in.Body.Document); err != nil {
		return nil, err
	}
	d, problems, err := s.o.Pipelines.Validate(ctx, in.Body.Document)
	if err != nil {
		return nil, err
	}
	out := Validation{Valid: problems.Err() == nil}
	if d != nil {
		out.Name = d.Name
		denied, err := s.o.Pipelines.Denied(ctx, d, access.Of(ctx).Role.String())
		if err != nil {
			return nil, err
		}
		problems = append(problems, denied...)
	}
	out.Problems = detailsOf(problems)
	return reply(out, nil)
}

// ListVersions selects versions.
type ListVersions struct {
	PipelinePath
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50"`
	Cursor string `query:"cursor" maxLength:"600"`
}

func (s *server) listVersions(ctx context.Context, in *ListVersions) (*answer[VersionList], error) {
	before, err := numberCursor("versions", in.Cursor)
	if err != nil {
		return nil, err
	}
	rows, err := s.o.Pipelines.Versions(ctx, in.ID, int(before), in.Limit)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		rows[i].Role = ""
	}
	out := VersionList{Items: rows, name: "versions"}
	if n := len(rows); n == in.Limit && rows[n-1].Version > 1 {
		out.Next = cursorTo("versions", strconv.Itoa(rows[n-1].Version))
	}
	return reply(out, nil)
}

type versionInput struct {
	PipelinePath
	Version int `path:"version" minimum:"1" maximum:"1000000"`
}

func (s *server) getVersion(ctx context.Context, in *versionInput) (*answer[PipelineVersion], error) {
	v, err := s.o.Pipelines.Version(ctx, in.ID, in.Version)
	if err != nil {
		return nil, err
	}
	v.Role = ""
	return reply(*v, nil)
}

type diffInput struct {
	PipelinePath
	From int `query:"from" required:"true" minimum:"1" maximum:"1000000"`
	To   int `query:"to" minimum:"0" maximum:"1000000" doc:"Defaults to the newest."`
}

func (s *server) diffVersions(ctx context.Context, in *diffInput) (*answer[PipelineDiff], error) {
	d, err := s.o.Pipelines.Diff(ctx, in.ID, in.From, in.To)
	if err != nil {
		return nil, err
	}
	return reply(*d, nil)
}
