package pipelinerun

import (
	"context"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/project"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// maxEarlier is how many of the newest ended runs of a lesson are looked at for what can be taken over.
const maxEarlier = 8

// ended are the statuses of executions that have ended.
var ended = []stepwell.ExecutionStatus{stepwell.ExecutionCompleted, stepwell.ExecutionCompletedWithFailures, stepwell.ExecutionFailed,
	stepwell.ExecutionCancelled, stepwell.ExecutionTimedOut}

// about fills in what a run is about, and the runs whose results it may take over.
func (r *Runs) about(ctx context.Context, l *pipeline.Launch, lesson *subject, reuse bool) error {
	l.Lesson, l.Project, l.About = lesson.id, lesson.project, lesson.about
	if l.Reuse = nil; !reuse {
		return nil
	}
	rows, err := r.o.Store.Executions(ctx, store.Filter{Lesson: lesson.id, Workflow: l.Request.Workflow, Statuses: ended, Limit: maxEarlier})
	for i := range rows {
		l.Reuse = append(l.Reuse, rows[i].ID)
	}
	return err
}

// Preview says what a start would do for a lesson.
type Preview struct {
	Lesson  string        `json:"lesson_id"`
	Version string        `json:"pipeline_version_id"`
	From    resource.Ref  `json:"reused_from" doc:"The run whose results are taken over; null: none."`
	Refused string        `json:"refused,omitempty" doc:"Why no run can be started for the lesson."`
	Steps   []PreviewStep `json:"steps" nullable:"false" doc:"By position; none of a refused lesson."`
}

// PreviewStep is a step of a preview.
type PreviewStep struct {
	Position int    `json:"position"`
	Key      string `json:"step_id"`
	Name     string `json:"name"`
	Type     string `json:"type" doc:"Its action."`
	Reused   bool   `json:"reused" doc:"Its result is taken over; otherwise it runs."`
	Because  string `json:"because,omitempty" doc:"Why it runs." example:"params changed"`
}

// Preview says what a start of the request would do now, and starts nothing: for the lesson, or for a page of the lessons of the project, in
// order of id, from after the one with the cursor. Next is where to go on, "" on the last page. Errors as with Start.
func (r *Runs) Preview(ctx context.Context, in *StartRequest, cursor string, limit int) (list []Preview, next string, err error) {
	l, err := r.resolve(ctx, in, store.Origin{})
	if err != nil {
		return nil, "", err
	}
	subjects, next, err := r.subjects(ctx, in, cursor, limit)
	if err != nil {
		return nil, "", err
	}
	l.Uncounted = in.Project == ""
	list = make([]Preview, len(subjects))
	for i := range subjects {
		if list[i], err = r.preview(ctx, l, &subjects[i], in.Reuse); err != nil {
			return nil, "", err
		}
	}
	return list, next, nil
}

// subjects are the lesson of a request, or a page of those of its project.
func (r *Runs) subjects(ctx context.Context, in *StartRequest, cursor string, limit int) (list []subject, next string, err error) {
	if in.Project == "" {
		one, err := r.lessonOf(ctx, in.Lesson)
		if err != nil {
			return nil, "", err
		}
		return []subject{*one}, "", nil
	}
	of, err := r.project(ctx, in.Project)
	if err != nil {
		return nil, "", err
	}
	lessons, err := r.o.Lessons.List(ctx, &project.LessonFilter{Project: in.Project, Page: resource.Page{Limit: limit + 1, Cursor: cursor}})
	if err != nil {
		return nil, "", err
	}
	if len(lessons) > limit {
		lessons, next = lessons[:limit], lessons[limit-1].Place()
	}
	for i := range lessons {
		about, err := project.AboutOf(of, &lessons[i])
		if err != nil {
			return nil, "", err
		}
		list = append(list, subject{lessons[i].ID, lessons[i].Project, about})
	}
	return list, next, nil
}

// preview says what a start would do for a lesson.
func (r *Runs) preview(ctx context.Context, l pipeline.Launch, lesson *subject, reuse bool) (Preview, error) {
	p := l.Pipeline.Plan()
	out := Preview{Lesson: lesson.id, Version: versionID(l.Request.Workflow, l.WorkflowVersion), Steps: []PreviewStep{}, Refused: refuses(p, lesson)}
	if out.Refused != "" {
		return out, nil
	}
	if err := r.about(ctx, &l, lesson, reuse); err != nil {
		return out, err
	}
	kept, err := r.o.Reuser.PreviewReuse(ctx, l.Request)
	if err != nil {
		return out, err
	}
	shown, err := r.outline(ctx, l.Pipeline.Hash[:])
	if err != nil {
		return out, err
	}
	out.From = resource.Ref(kept.Execution)
	for i := range shown.steps {
		d := &shown.steps[i]
		step := PreviewStep{Position: i + 1, Key: d.ID, Name: d.Name, Type: d.Action, Reused: i < kept.Steps}
		if d.Name == "" {
			step.Name = d.ID
		}
		switch {
		case step.Reused:
		case !reuse:
			step.Because = "the request does not ask for reuse"
		case len(l.Reuse) == 0:
			step.Because = "no run of the pipeline has ended for the lesson"
		default:
			step.Because = r.o.Redact.Text("", kept.Why[i-kept.Steps])
		}
		out.Steps = append(out.Steps, step)
	}
	return out, nil
}

// reuse is what a run has taken over.
type reuse struct {
	from resource.Ref
	keys map[string]bool // of the steps
}

// reused reads what a run has taken over from its first version: from a run of the lesson, or from the one that it retries.
func (r *Runs) reused(ctx context.Context, x *store.Execution) (*reuse, error) {
	if u, ok := r.reuses.get(x.ID); ok {
		return u, nil
	}
	for entry, err := range r.o.Store.StepLog(ctx, x.No, 0) {
		if err != nil {
			return nil, err
		}
		b, err := engine.DecodeBatch(entry.Version, entry.Body)
		if err != nil {
			return nil, err
		}
		u := &reuse{keys: map[string]bool{}}
		for i := range b.Events {
			if begin := b.Events[i].Begin; begin != nil {
				u.fill(begin)
			}
		}
		r.reuses.put(x.ID, u)
		return u, nil
	}
	return &reuse{}, nil // it is being created, or removed
}

func (u *reuse) fill(begin *engine.Begin) {
	u.from = resource.Ref(begin.Parent)
	if begin.Reused != "" {
		u.from = resource.Ref(begin.Reused)
	}
	for i := range begin.Seeds {
		if s := &begin.Seeds[i]; s.In == "" && s.Status.Terminal() {
			u.keys[s.Key] = true
		}
	}
}

// of is the run that gave a step's result. A step that was taken over ended before its run began, without an attempt; after a restart it
// ends later.
func (u *reuse) of(x *store.Execution, s *store.Step) resource.Ref {
	if !u.keys[s.Key] || s.Attempt > 0 || stepStatus(s) != Done || s.Ended > x.Started.UnixMicro() {
		return ""
	}
	return u.from
}
