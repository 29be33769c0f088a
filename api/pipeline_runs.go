package api

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/api/live"
	"github.com/stepwell/stepwell/pipelinerun"
	"github.com/stepwell/stepwell/store"
)

// The shapes of pipeline runs, in the words of specification pipeline-runs.
type (
	PipelineRun      = pipelinerun.Run
	PipelineRunBulk  = pipelinerun.Bulk
	StartPipelineRun = pipelinerun.StartRequest
	PreviewRun       = pipelinerun.Preview
	ListPipelineRuns struct {
		pipelinerun.Filter
		Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
		Cursor string `query:"cursor" maxLength:"600"`
	}
)

// Data is an answer in the form of pipeline-runs.
type Data[T any] struct {
	Data T `json:"data"`
}

// PipelineRunList is a page of pipeline runs.
type PipelineRunList struct {
	Data []PipelineRun `json:"data" nullable:"false"`
	Next string        `json:"next_cursor,omitempty" doc:"The cursor of the next page; missing on the last."`
}

// PipelineRunPreview is a page of what a start would do.
type PipelineRunPreview struct {
	Data []PreviewRun `json:"data" nullable:"false" doc:"For the lesson, or for those of the project in order of id."`
	Next string       `json:"next_cursor,omitempty" doc:"The cursor of the next page; missing on the last."`
}

// PipelineRunPath is the parameter of operations on one pipeline run.
type PipelineRunPath struct {
	ID string `path:"run_id" maxLength:"36" doc:"UUID of the run, or a beginning of it that no other has (8 characters or more)."`
}

// RestartPipelineRun is the body of a restart.
type RestartPipelineRun struct {
	Step string `json:"step_id" minLength:"1" maxLength:"80" doc:"The id of a step of the run: it and all after it run again."`
}

// pipelineRuns are the operations of pipeline runs.
type pipelineRuns struct {
	*server
	runs *pipelinerun.Runs
}

// PipelineRuns serves pipeline runs.
func PipelineRuns(runs *pipelinerun.Runs) Kind { return &pipelineRuns{runs: runs} }

// Work implements Kind.
func (k *pipelineRuns) Work() (name string, run func(ctx context.Context) error) {
	return "pipeline runs", k.runs.Run
}

func (k *pipelineRuns) rows() []operation { return []operation{{id: "pipeline_run.start"}} }

func (k *pipelineRuns) serve(s *server) {
	k.server = s
	maps.Copy(s.names, runNames)
	handle(s, "pipeline_run.start", k.start, func(op *huma.Operation) {
		op.Description = "A run for lesson_id, answered with the run; or one for each lesson of project_id, answered with their number."
	})
	handle(s, "pipeline_run.preview", k.preview)
	handle(s, "pipeline_run.list", k.list)
	handle(s, "pipeline_run.queue", k.queue)
	handle(s, "pipeline_run.events", k.follow, func(op *huma.Operation) {
		op.Description = "queue-snapshot {data: [run …]} at once, then queue-run-updated {data: run} for each run that is new or has changed, and queue-run-removed {id} for one that is not in the queue any more."
		op.Responses["200"] = &huma.Response{Description: "The stream", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: "string"}}}}
	})
	handle(s, "pipeline_run.get", k.get)
	handle(s, "pipeline_run.restart", k.restart)
	for id, change := range map[string]func(context.Context, string) (*PipelineRun, error){"pause": k.runs.Pause, "stop": k.runs.Stop, "resume": k.runs.Resume} {
		handle(s, "pipeline_run."+id, func(ctx context.Context, in *PipelineRunPath) (*answer[Data[PipelineRun]], error) {
			return k.changed(ctx, func() (*PipelineRun, error) { return change(ctx, in.ID) })
		})
	}
}

// unprocessable gives errors of pipeline runs their status.
func (k *pipelineRuns) unprocessable(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*pipelinerun.UnprocessableError](err); !ok {
		return err
	}
	p := problemOf(ctx, k.o.Log, err)
	p.status, callOf(ctx).unprocessable = http.StatusUnprocessableEntity, true
	return p
}

type startRunInput struct {
	Key  string `header:"Idempotency-Key" maxLength:"257" doc:"Makes it happen once; of the runs of a project: each lesson gets one, however often the request is sent."`
	Body StartPipelineRun
}

// startedRuns is the answer to a start: of a run, or of the runs of a project.
type startedRuns struct {
	Status   int
	Location string `header:"Location"`
	Body     StartedPipelineRuns
}

// StartedPipelineRuns has the run that was started, or tells of those of a project.
type StartedPipelineRuns struct {
	Data any `json:"data"`
}

// Schema is for the description.
func (StartedPipelineRuns) Schema(r huma.Registry) *huma.Schema {
	one, all := r.Schema(reflect.TypeFor[PipelineRun](), true, ""), r.Schema(reflect.TypeFor[PipelineRunBulk](), true, "")
	return &huma.Schema{Type: "object", Required: []string{"data"}, Properties: map[string]*huma.Schema{"data": {OneOf: []*huma.Schema{one, all}}}}
}

func (k *pipelineRuns) start(ctx context.Context, in *startRunInput) (*startedRuns, error) {
	if err := k.oneOf(ctx, &in.Body); err != nil {
		return nil, err
	}
	if in.Body.Project != "" && in.Key == "" {
		in.Key = uuid.NewString()
	}
	key, hash, err := k.once(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	by := store.Origin{Actor: access.Of(ctx).Actor(), Key: key, KeyHash: hash}
	if in.Body.Project != "" {
		return k.startAll(ctx, in, by)
	}
	run, fresh, err := k.runs.Start(ctx, &in.Body, by)
	if err != nil {
		return nil, k.unprocessable(ctx, err)
	}
	if callOf(ctx).object = run.ID; fresh {
		k.link(ctx, run.ID)
	}
	return &startedRuns{statusOf(fresh), prefix + "/pipeline-runs/" + run.ID, StartedPipelineRuns{run}}, nil
}

// oneOf refuses a request that names neither a lesson nor a project, or both.
func (k *pipelineRuns) oneOf(ctx context.Context, in *StartPipelineRun) error {
	if (in.Lesson == "") != (in.Project == "") {
		return nil
	}
	return k.unprocessable(ctx, &pipelinerun.UnprocessableError{Err: stepwell.Invalid("give lesson_id or project_id", "the request does not say what to run")})
}

type previewRunsInput struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"Lessons of one answer."`
	Cursor string `query:"cursor" maxLength:"600"`
	Body   StartPipelineRun
}

// preview says what a start would do.
func (k *pipelineRuns) preview(ctx context.Context, in *previewRunsInput) (*answer[PipelineRunPreview], error) {
	if err := k.oneOf(ctx, &in.Body); err != nil {
		return nil, err
	}
	after, err := cursorOf("lessons", in.Cursor)
	if err != nil {
		return nil, err
	}
	list, next, err := k.runs.Preview(ctx, &in.Body, after, in.Limit)
	return reply(PipelineRunPreview{list, cursorTo("lessons", next)}, k.unprocessable(ctx, err))
}

// startAll starts the runs of a project.
func (k *pipelineRuns) startAll(ctx context.Context, in *startRunInput, by store.Origin) (*startedRuns, error) {
	bulk, err := k.runs.StartAll(ctx, &in.Body, by)
	if err != nil {
		p := problemOf(ctx, k.o.Log, k.unprocessable(ctx, err))
		if bulk != nil {
			p.Hint = "send the request again with the header Idempotency-Key: " + in.Key + "; it continues where it was interrupted. " + p.Hint
		}
		return nil, p
	}
	bulk.ID = in.Key
	callOf(ctx).object = in.Body.Project
	callOf(ctx).note("runs", bulk.Started)
	return &startedRuns{statusOf(bulk.Started > 0), prefix + "/pipeline-runs?project_id=" + in.Body.Project, StartedPipelineRuns{bulk}}, nil
}

func (k *pipelineRuns) list(ctx context.Context, in *ListPipelineRuns) (*answer[PipelineRunList], error) {
	before, err := cursorOf("pipeline-runs", in.Cursor)
	if err != nil {
		return nil, err
	}
	rows, next, err := k.runs.List(ctx, in.Filter, before, in.Limit)
	return reply(PipelineRunList{rows, cursorTo("pipeline-runs", next)}, k.unprocessable(ctx, err))
}

type queueInput struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
	Cursor string `query:"cursor" maxLength:"600"`
}

func (k *pipelineRuns) queue(ctx context.Context, in *queueInput) (*answer[PipelineRunList], error) {
	after, err := cursorOf("queue", in.Cursor)
	if err != nil {
		return nil, err
	}
	rows, next, err := k.runs.Queue(ctx, after, in.Limit)
	return reply(PipelineRunList{rows, cursorTo("queue", next)}, err)
}

// follow streams the queue.
func (k *pipelineRuns) follow(context.Context, *struct{}) (*streamed, error) {
	return &streamed{k.passOn(live.Queue(k.runs, k.o.Stopping, live.Options{Fail: k.refuse}))}, nil
}

func (k *pipelineRuns) get(ctx context.Context, in *PipelineRunPath) (*answer[Data[PipelineRun]], error) {
	return k.changed(ctx, func() (*PipelineRun, error) { return k.runs.Get(ctx, in.ID) })
}

type restartRunInput struct {
	PipelineRunPath
	Body RestartPipelineRun
}

func (k *pipelineRuns) restart(ctx context.Context, in *restartRunInput) (*answer[Data[PipelineRun]], error) {
	return k.changed(ctx, func() (*PipelineRun, error) { return k.runs.Restart(ctx, in.ID, in.Body.Step) })
}

// changed answers with a run.
func (k *pipelineRuns) changed(ctx context.Context, do func() (*PipelineRun, error)) (*answer[Data[PipelineRun]], error) {
	run, err := do()
	if err != nil {
		return nil, k.unprocessable(ctx, err)
	}
	callOf(ctx).object = run.ID
	return reply(Data[PipelineRun]{*run}, nil)
}

// runNames are the names of the schemas of pipeline runs.
var runNames = map[reflect.Type]string{reflect.TypeFor[PipelineRun](): "PipelineRun", reflect.TypeFor[pipelinerun.Step](): "PipelineRunStep",
	reflect.TypeFor[pipelinerun.State](): "PipelineRunState", reflect.TypeFor[pipelinerun.LessonRef](): "PipelineRunLesson",
	reflect.TypeFor[pipelinerun.ProjectRef](): "PipelineRunProject", reflect.TypeFor[pipelinerun.VersionRef](): "PipelineRunVersion",
	reflect.TypeFor[PipelineRunBulk](): "PipelineRunBulk", reflect.TypeFor[pipelinerun.Refused](): "RefusedLesson", reflect.TypeFor[StartPipelineRun](): "StartPipelineRun",
	reflect.TypeFor[PreviewRun](): "PreviewPipelineRun", reflect.TypeFor[pipelinerun.PreviewStep](): "PreviewPipelineRunStep",
	reflect.TypeFor[Data[PipelineRun]](): "PipelineRunData"}

// Schemas of values of pipeline runs, for the description.
type (
	costSchema     struct{}
	runErrorSchema struct{}
)

var runSchemas = map[reflect.Type]reflect.Type{reflect.TypeFor[pipelinerun.Cost](): reflect.TypeFor[costSchema](), reflect.TypeFor[pipelinerun.RunError](): reflect.TypeFor[runErrorSchema]()}

// Schema implements huma.SchemaProvider.
func (costSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: "number", Description: "Money, with four decimals.", Examples: []any{0.0125}}
}

// Schema implements huma.SchemaProvider.
func (runErrorSchema) Schema(huma.Registry) *huma.Schema {
	text := &huma.Schema{Type: "string"}
	return &huma.Schema{Type: "object", Nullable: true, Required: []string{"code", "message"}, Properties: map[string]*huma.Schema{"code": text, "message": text, "hint": text}}
}
