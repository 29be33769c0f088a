// Package pipelinerun shows and steers the executions of lessons in the words of the specification pipeline-runs: a run is an
// execution that has a lesson and runs a stored, sequential pipeline. Its id is the execution's; nothing of a run is stored elsewhere.
//
// A run goes through its steps one at a time, by position. Runs are started for one lesson, or for all lessons of a project. The
// conductor runs, pauses and restarts them as any execution. Stability: experimental until version 1.
package pipelinerun

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/progress"
	"github.com/stepwell/stepwell/project"
	"github.com/stepwell/stepwell/store"
)

// Store is the part of the store that runs need.
type Store interface {
	Execution(ctx context.Context, id string) (*store.Execution, error)
	Executions(ctx context.Context, f store.Filter) ([]store.Execution, error)
	Steps(ctx context.Context, execution int64, f store.StepFilter) ([]store.Step, error)
	Events(ctx context.Context, execution, after int64, limit int) ([]engine.HistoryEvent, error)
	StepLog(ctx context.Context, execution, after int64) iter.Seq2[store.LogEntry, error]
	Definition(ctx context.Context, hash []byte) ([]byte, error)
	// UnfinishedRuns are the executions of runs that are queued or running.
	UnfinishedRuns(ctx context.Context, after string, limit int) ([]store.Execution, error)
	store.Objects
}

// Library launches executions of stored pipelines; a pipeline.Library does.
type Library interface {
	Resolve(ctx context.Context, in pipeline.Launch) (pipeline.Launch, error)
	Launch(ctx context.Context, in pipeline.Launch) (*pipeline.Launched, error)
}

// Lessons finds lessons; project.Lessons does.
type Lessons interface {
	Get(ctx context.Context, id string) (*project.Lesson, error)
	List(ctx context.Context, f *project.LessonFilter) ([]project.Lesson, error)
	Each(ctx context.Context, project string, visit func(*project.Lesson) error) error
	About(ctx context.Context, id string) (json.RawMessage, *project.Lesson, error)
}

// Reuser says what a start would take over; a conductor.Conductor does.
type Reuser interface {
	PreviewReuse(ctx context.Context, req conductor.Request) (*conductor.Reuse, error)
}

// Control steers executions wherever they run.
type Control interface {
	Pause(ctx context.Context, id string) error
	Resume(ctx context.Context, id string) error
	Restart(ctx context.Context, id, step string, failedOnly bool) error
}

// Projects finds projects and counts what is processed; project.Projects does.
type Projects interface {
	Get(ctx context.Context, id string) (*project.Project, error)
	Read(ctx context.Context, project string) (progress.Progress, error)
	Begin(ctx context.Context, project string, total int64) (progress.Progress, error)
	FinishDiscovery(ctx context.Context, project string, total int64) (progress.Progress, error)
	SetTotal(ctx context.Context, project string, total int64) (progress.Progress, error)
}

// Redactor hides secrets in what is shown; a secret.Guard does.
type Redactor interface {
	Text(execution, text string) string
	JSON(execution string, raw []byte) []byte
}

// Options configure Runs. All without a default are required.
type Options struct {
	Store    Store
	Blobs    store.Blobs // where large outputs are
	Library  Library
	Lessons  Lessons
	Projects Projects
	Control  Control
	Reuser   Reuser
	Redact   Redactor
	// Follow has notice called when something of an execution of another process has changed, until stop is called (feed.Peers).
	// Defaults to none: Watcher finds such changes by looking.
	Follow func(execution int64, notice func()) (stop func())
	// Poll is how often a queue with followers is read without a notification. Defaults to 2 seconds.
	Poll time.Duration
	// Log takes the package's own messages. Defaults to slog.Default.
	Log *slog.Logger
}

// Runs are the runs of a store. Its methods may be called from many goroutines, and from many processes.
type Runs struct {
	o       Options
	plans   cache[string, *outline]
	steps   cache[string, []Step]
	reuses  cache[string, *reuse]
	lessons cache[string, seenLesson]
	bulks   locks
	queue   watcher
}

// New makes Runs. Live updates of the queue need Run.
func New(o Options) (*Runs, error) {
	if o.Store == nil || o.Blobs == nil || o.Library == nil || o.Lessons == nil || o.Projects == nil || o.Control == nil || o.Reuser == nil || o.Redact == nil {
		return nil, stepwell.Errorf(stepwell.CodeInternal, "", "pipelinerun: Store, Blobs, Library, Lessons, Projects, Control, Reuser and Redact are required")
	}
	o.Poll, o.Log = cmp.Or(max(o.Poll, 0), 2*time.Second), cmp.Or(o.Log, slog.Default())
	r := &Runs{o: o}
	r.plans.most, r.steps.most, r.reuses.most, r.lessons.most = 256, 4096, 4096, 4096
	r.queue.init(r)
	return r, nil
}

// UnprocessableError is a request that can be read and makes no sense for the objects that it names: status 422 over HTTP. Its
// code is CodeInvalid.
type UnprocessableError struct{ Err *stepwell.Error }

func (e *UnprocessableError) Error() string { return e.Err.Error() }

// Unwrap gives the coded error.
func (e *UnprocessableError) Unwrap() error { return e.Err }

func unprocessable(hint, format string, args ...any) error {
	return &UnprocessableError{stepwell.Invalid(hint, format, args...)}
}

// stepID names the step of a run at a position, which counts from 1.
func stepID(run string, position int) string { return run + ":" + strconv.Itoa(position) }

// positionOf reads the position from the id of a step of the run.
func positionOf(run, step string) (int, error) {
	of, number, ok := strings.Cut(step, ":")
	n, err := strconv.Atoi(number)
	switch {
	case !ok || err != nil || n < 1 || strconv.Itoa(n) != number:
		return 0, unprocessable("take step_id from the run: the run's id, a colon and the position, such as "+stepID(run, 1), "step_id: %q is not a step", stepwell.Clip(step, 80))
	case !strings.EqualFold(of, run):
		return 0, unprocessable("take step_id from the run that is to be restarted", "step_id: the step belongs to another run, %s", stepwell.Clip(of, 40))
	}
	return n, nil
}

// versionID names a version of a pipeline.
func versionID(pipeline string, version int) string { return pipeline + ":" + strconv.Itoa(version) }

// ParseVersion reads the id of a version of a pipeline: "<pipeline id>:<number>".
func ParseVersion(id string) (pipeline string, version int, err error) {
	i := strings.LastIndexByte(id, ':')
	if i > 0 {
		version, err = strconv.Atoi(id[i+1:])
	}
	if i <= 0 || err != nil || version < 1 {
		return "", 0, unprocessable("the pipeline's id, a colon and the number of the version; or give pipeline_id, and version if it is not the active one", "pipeline_version_id: %q is not a version of a pipeline", stepwell.Clip(id, 80))
	}
	return id[:i], version, nil
}
