package api

import (
	"context"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/pipeline"
)

// The shapes of stored pipelines.
type (
	Document        = pipeline.Document
	NewPipeline     = pipeline.Draft
	Pipeline        = pipeline.Pipeline
	PipelineChange  = pipeline.Draft
	PipelineList    = Page[Pipeline]
	ListPipelines   = pipeline.Filter
	PipelineVersion = pipeline.Version
	VersionList     = Page[PipelineVersion]
	PipelineDiff    = pipeline.Diff
)

// pipelines are the stored pipelines with their own operations.
type pipelines struct {
	*kindOf[NewPipeline, NewPipeline, Pipeline, Pipeline, ListPipelines]
	*server
	planning turns
	judging  turns
	past     pasts
}

func pipelinesOf(l *pipeline.Library) Kind {
	p := &pipelines{kindOf: &kindOf[NewPipeline, NewPipeline, Pipeline, Pipeline, ListPipelines]{Resource: l}}
	p.completed = func(ctx context.Context, of any) error {
		d := of.(*NewPipeline)
		d.Author, d.Role = access.Of(ctx).Actor(), access.Of(ctx).Role.String()
		return p.fits(d.Document)
	}
	return p
}

func (p *pipelines) serve(s *server) {
	p.server = s
	p.kindOf.serve(s)
	handle(s, "pipeline.validate", p.validate)
	handle(s, "pipeline.plan", p.plan)
	handle(s, "pipeline.versions", p.versions, hides[PipelineVersion](s), listed[PipelineVersion](s, "VersionList", "versions"))
	handle(s, "pipeline.version", p.version, hides[PipelineVersion](s))
	handle(s, "pipeline.diff", p.diff)
	p.usage()
	for id, do := range map[string]versionChange{"pipeline.version.activate": (*pipeline.Library).Activate, "pipeline.version.archive": archive(true), "pipeline.version.unarchive": archive(false)} {
		handle(s, id, p.changing(do), hides[PipelineVersion](s))
	}
}

// documentSchema describes a Document.
type documentSchema struct{}

// Schema implements huma.SchemaProvider.
func (documentSchema) Schema(huma.Registry) *huma.Schema {
	example := map[string]any{"name": "hello", "steps": []any{map[string]any{"id": "say", "action": "util.log", "params": map[string]any{"message": "Hello"}}}}
	return &huma.Schema{Description: "A pipeline: its text in YAML or JSON, or the object itself.", Examples: []any{example},
		OneOf: []*huma.Schema{{Type: "string"}, {Type: "object", AdditionalProperties: true}}}
}

// PipelinePath is the parameter of operations on one.
type PipelinePath struct {
	ID string `path:"pipeline_id" maxLength:"255" doc:"Its id, or its name."`
}

// ValidateRequest asks for the problems of a pipeline.
type ValidateRequest struct {
	Document Document `json:"document"`
}

// Validation lists the problems of a pipeline.
type Validation struct {
	Valid    bool     `json:"valid"`
	Name     string   `json:"name"`
	Problems []Detail `json:"problems" nullable:"false" doc:"Errors and warnings, in order of the document, and behind them warnings of steps that the policy denies to what the caller writes, and of what does not go with the pipeline's schedules and past executions."`
}

func (p *pipelines) validate(ctx context.Context, in *bodyInput[ValidateRequest]) (*answer[Validation], error) {
	if err := p.fits(in.Body.Document); err != nil {
		return nil, err
	}
	d, problems, err := p.o.Pipelines.Validate(ctx, in.Body.Document)
	if err != nil {
		return nil, err
	}
	out := Validation{Valid: problems.Err() == nil}
	if d != nil {
		out.Name = d.Name
	}
	out.Problems, err = p.details(ctx, d, in.Body.Document, problems)
	return reply(out, err)
}

// ListVersions selects versions.
type ListVersions struct {
	PipelinePath
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50"`
	Cursor string `query:"cursor" maxLength:"600"`
}

func (p *pipelines) versions(ctx context.Context, in *ListVersions) (*answer[VersionList], error) {
	before, err := numberCursor("versions", in.Cursor)
	if err != nil {
		return nil, err
	}
	rows, err := p.o.Pipelines.Versions(ctx, in.ID, int(before), in.Limit)
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

// VersionPath are the parameters of operations on a version.
type VersionPath struct {
	PipelinePath
	Version int `path:"version" minimum:"1" maximum:"1000000"`
}

func (p *pipelines) version(ctx context.Context, in *VersionPath) (*answer[PipelineVersion], error) {
	v, err := p.o.Pipelines.Version(ctx, in.ID, in.Version)
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

func (p *pipelines) diff(ctx context.Context, in *diffInput) (*answer[PipelineDiff], error) {
	d, err := p.o.Pipelines.Diff(ctx, in.ID, in.From, in.To)
	if err != nil {
		return nil, err
	}
	return reply(*d, nil)
}

// versionChange changes what a pipeline says of one of its versions.
type versionChange func(l *pipeline.Library, ctx context.Context, idOrName string, version int, revision int64) (*PipelineVersion, error)

func archive(archived bool) versionChange {
	return func(l *pipeline.Library, ctx context.Context, idOrName string, version int, revision int64) (*PipelineVersion, error) {
		return l.ArchiveVersion(ctx, idOrName, version, archived, revision)
	}
}

type changeVersionInput struct {
	VersionPath
	IfMatch string `header:"If-Match" maxLength:"2000" doc:"The ETag of the pipeline."`
}

// changing answers with the version, and the new ETag of the pipeline.
func (p *pipelines) changing(do versionChange) func(context.Context, *changeVersionInput) (*tagged[PipelineVersion], error) {
	return func(ctx context.Context, in *changeVersionInput) (*tagged[PipelineVersion], error) {
		find := func() (*PipelineVersion, error) { return p.o.Pipelines.Version(ctx, in.ID, in.Version) }
		v, err := find()
		if err != nil {
			return nil, err
		}
		callOf(ctx).object = v.Pipeline
		callOf(ctx).note("version", strconv.Itoa(in.Version))
		v, err = change(in.IfMatch, v, func(v *PipelineVersion) int64 { return v.Revision }, func(revision int64) (*PipelineVersion, error) {
			return do(p.o.Pipelines, ctx, v.Pipeline, in.Version, revision)
		}, find)
		if err != nil {
			return nil, err
		}
		v.Role, v.Document = "", ""
		return &tagged[PipelineVersion]{etag(v.Revision), *v}, nil
	}
}
