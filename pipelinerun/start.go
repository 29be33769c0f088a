package pipelinerun

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// StartRequest starts a run for a lesson, or one for each lesson of a project.
type StartRequest struct {
	Lesson   string          `json:"lesson_id,omitempty" maxLength:"200"`
	Project  string          `json:"project_id,omitempty" maxLength:"200" doc:"Starts a run for each of its lessons, instead of lesson_id."`
	Version  string          `json:"pipeline_version_id,omitempty" maxLength:"300" doc:"The pipeline's id, a colon and the number of the version." example:"0197a1b2-0000-7000-8000-000000000000:3"`
	Pipeline string          `json:"pipeline_id,omitempty" maxLength:"255" doc:"Instead of pipeline_version_id: id or name of the pipeline."`
	Number   int             `json:"version,omitempty" minimum:"0" maximum:"1000000" doc:"With pipeline_id. Defaults to the version that starts use."`
	Params   resource.Object `json:"params,omitempty" doc:"Values of the pipeline's parameters."`
	Window   int             `json:"window,omitempty" minimum:"0" maximum:"10000" doc:"With project_id: how many of these runs continue at once; the others are queued. Defaults to 100."`
	Reuse    bool            `json:"reuse,omitempty" doc:"Takes over the results of the first steps that have not changed since an earlier run of the pipeline for the lesson. POST …/preview tells which."`
}

// target is the version of the pipeline that a request asks for.
func (in *StartRequest) target() (l pipeline.Launch, err error) {
	switch {
	case (in.Version == "") == (in.Pipeline == ""):
		return l, unprocessable("give pipeline_version_id, or pipeline_id with or without version", "the request does not say which version of a pipeline to run")
	case in.Version != "" && in.Number != 0:
		return l, unprocessable("leave version out", "the request names the version twice")
	case in.Version != "":
		l.Workflow, l.Version, err = ParseVersion(in.Version)
	default:
		l.Workflow, l.Version = in.Pipeline, in.Number
	}
	return l, err
}

// resolve finds the version of a pipeline that a request asks for. UnprocessableError: it is not sequential, or there is no such one.
func (r *Runs) resolve(ctx context.Context, in *StartRequest, by store.Origin) (pipeline.Launch, error) {
	l, err := in.target()
	if err != nil {
		return l, err
	}
	l.Request = conductor.Request{Origin: by, Params: in.Params}
	if l, err = r.o.Library.Resolve(ctx, l); missing(err) {
		return l, unprocessable("GET /api/v1/pipelines lists them", "pipeline_version_id: %v", err)
	} else if err != nil {
		return l, err
	}
	if !sequential(l.Pipeline.Plan()) {
		return l, unprocessable("write settings: {sequential: true} into the pipeline", "the pipeline %s is not sequential: its steps have no positions", l.Pipeline.Name)
	}
	return l, nil
}

// sequential reports whether each step waits for the one before it.
func sequential(p *plan.Plan) bool {
	for i := range p.Graph.Steps {
		if i > 0 && !slices.Contains(p.Graph.Steps[i].Deps, int32(i-1)) {
			return false
		}
	}
	return true
}

// Start starts a run for a lesson; fresh is false for one that was started before under the origin's key. UnprocessableError: there is
// no such lesson or version, the pipeline is not sequential, or it needs the file of a lesson that has none.
func (r *Runs) Start(ctx context.Context, in *StartRequest, by store.Origin) (run *Run, fresh bool, err error) {
	l, err := r.resolve(ctx, in, by)
	if err != nil {
		return nil, false, err
	}
	lesson, err := r.lessonOf(ctx, in.Lesson)
	if err != nil {
		return nil, false, err
	}
	if why := refuses(l.Pipeline.Plan(), lesson); why != "" {
		return nil, false, unprocessable("give the lesson its file first", "lesson %s: %s", lesson.id, why)
	}
	l.Uncounted = true
	id, fresh, err := r.launch(ctx, l, lesson, in.Reuse)
	if err != nil {
		return nil, false, err
	}
	run, err = r.Get(ctx, id)
	return run, fresh, err
}

// subject is a lesson as a start needs it.
type subject struct {
	id, project string
	about       json.RawMessage
}

// lessonOf finds the lesson that a request names.
func (r *Runs) lessonOf(ctx context.Context, id string) (*subject, error) {
	about, l, err := r.o.Lessons.About(ctx, id)
	if missing(err) {
		return nil, unprocessable("GET /api/v1/lessons lists them", "lesson_id: there is no lesson %s", stepwell.Clip(id, 80))
	}
	if err != nil {
		return nil, err
	}
	return &subject{l.ID, l.Project, about}, nil
}

// launch starts the run of a lesson.
func (r *Runs) launch(ctx context.Context, l pipeline.Launch, lesson *subject, reuse bool) (id string, fresh bool, err error) {
	if err := r.about(ctx, &l, lesson, reuse); err != nil {
		return "", false, err
	}
	out, err := r.o.Library.Launch(ctx, l)
	if err != nil {
		return "", false, err
	}
	return out.Execution, out.Fresh, nil
}

// refuses is why a pipeline cannot run for a lesson; "": it can.
func refuses(p *plan.Plan, lesson *subject) string {
	about := map[string]any{}
	err := json.Unmarshal(lesson.about, &about)
	if err == nil {
		err = p.CheckAbout(about)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}
