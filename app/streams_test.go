package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/worker"
)

// streamRig runs pipelines of stream steps in a directory of their own.
type streamRig struct {
	t   *testing.T
	dir string
	o   app.Options
}

func newStreamRig(t *testing.T) *streamRig {
	dir := t.TempDir()
	return &streamRig{t: t, dir: dir, o: app.Options{DB: filepath.Join(dir, "stepwell.db"), Synchronous: "normal", Log: slog.New(slog.DiscardHandler)}}
}

// with opens the app, runs it while use does, and lets it drain.
func (r *streamRig) with(use func(a *app.App)) {
	r.t.Helper()
	a, err := app.New(r.t.Context(), r.o)
	if err != nil {
		r.t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- a.Run(context.Background()) }()
	use(a)
	a.Drain()
	if err := errors.Join(<-ran, a.Close()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *streamRig) start(a *app.App, doc string) string {
	r.t.Helper()
	d, problems := definition.Parse([]byte(doc), definition.ParseOptions{})
	if err := problems.Err(); err != nil {
		r.t.Fatal(err)
	}
	if err := definition.Check(d, a.Actions, "").Err(); err != nil {
		r.t.Fatal(err)
	}
	p, err := a.Conductor.Register(r.t.Context(), d)
	if err != nil {
		r.t.Fatal(err)
	}
	id, err := a.Conductor.Start(r.t.Context(), conductor.Request{Pipeline: p, Dir: r.dir})
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

func (r *streamRig) end(a *app.App, id string) (*store.Execution, map[string]store.Step) {
	r.t.Helper()
	ctx, stop := context.WithTimeout(r.t.Context(), 5*time.Minute)
	defer stop()
	x, err := a.Conductor.Wait(ctx, id)
	if err != nil {
		r.t.Fatal(err)
	}
	return x, r.steps(a, x.No)
}

func (r *streamRig) steps(a *app.App, no int64) map[string]store.Step {
	r.t.Helper()
	list, err := a.Store.Steps(r.t.Context(), no, store.StepFilter{})
	if err != nil {
		r.t.Fatal(err)
	}
	steps := map[string]store.Step{}
	for _, s := range list {
		steps[s.Key] = s
	}
	return steps
}

func (r *streamRig) file(name, content string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(content), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r *streamRig) read(name string) string {
	r.t.Helper()
	raw, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(raw)
}

const oddPipeline = `
name: odd
steps:
  - {id: read, module: stream.read, config: {path: in.ndjson}}
  - {id: odd, module: stream.filter, depends_on: [read], config: {when: "item.n % 2 == 1"}}
  - {id: write, module: stream.write, depends_on: [odd], config: {path: out.ndjson}}
  - {id: tell, action: util.set_output, depends_on: [write], params: {outputs: {wrote: "{{ steps.write.outputs.items_in }}", read: "{{ steps.read.outputs.items_out }}"}}}
`

// Every stream step is a step like any other: with a state, outputs that others read, and its counts. A bad
// item makes the execution complete with failures, and the report of the specification says which it was.
func TestStreamSteps(t *testing.T) {
	r := newStreamRig(t)
	r.file("in.ndjson", "{\"n\":1}\n{\"n\":2}\nnonsense\n{\"n\":3}\n")
	seen := map[int32]int64{}
	var mu sync.Mutex
	r.o.Progress = func(_ int64, idx int32, p worker.Progress) {
		mu.Lock()
		defer mu.Unlock()
		if p.Counts != nil {
			seen[idx] = max(p.Counts.In, p.Counts.Out)
		}
	}
	r.with(func(a *app.App) {
		x, steps := r.end(a, r.start(a, oddPipeline))
		if x.Status != stepwell.ExecutionCompletedWithFailures {
			t.Errorf("the execution is %v: %+v", x.Status, x.Failure)
		}
		for _, id := range []string{"read", "odd", "write", "tell", "finally.report"} {
			if s := steps[id]; s.Status != stepwell.StepCompleted || s.Attempt != 1 {
				t.Errorf("%s: %v, attempt %d", id, s.Status, s.Attempt)
			}
		}
		var told struct{ Wrote, Read int }
		if err := json.Unmarshal(steps["tell"].Output, &told); err != nil || told.Wrote != 2 || told.Read != 3 {
			t.Errorf("told %s", steps["tell"].Output)
		}
	})
	if got := r.read("out.ndjson"); got != "{\"n\":1}\n{\"n\":3}\n" {
		t.Errorf("wrote %q", got)
	}
	var report struct {
		Workflow string         `json:"workflow_name"`
		Total    int            `json:"total_failures"`
		Steps    int            `json:"total_steps"`
		By       map[string]int `json:"failures_by_step"`
		Failures []struct {
			Step    string `json:"step_id"`
			Context struct {
				File string `json:"source_file"`
				Line int    `json:"line_number"`
			}
		}
	}
	if err := json.Unmarshal([]byte(r.read("failures.json")), &report); err != nil {
		t.Fatal(err)
	}
	if report.Workflow != "odd" || report.Total != 1 || report.Steps != 3 || report.By["read"] != 1 || report.Failures[0].Context.Line != 3 || report.Failures[0].Context.File != "in.ndjson" {
		t.Errorf("the report: %+v", report)
	}
	mu.Lock()
	defer mu.Unlock()
	if seen[0] < 3 || seen[2] != 2 {
		t.Errorf("the counts seen live: %v", seen)
	}
}

// The step at fault fails, with its name; what is beside it in the stream is stopped, what comes after skipped.
func TestStreamFault(t *testing.T) {
	r := newStreamRig(t)
	r.file("in.ndjson", "{\"n\":1}\n")
	if err := os.MkdirAll(filepath.Join(r.dir, "out.ndjson", "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.with(func(a *app.App) {
		x, steps := r.end(a, r.start(a, oddPipeline))
		if x.Status != stepwell.ExecutionFailed || x.Failure == nil || x.Failure.Step != "write" {
			t.Errorf("the execution is %v: %+v", x.Status, x.Failure)
		}
		if steps["write"].Status != stepwell.StepFailed || steps["read"].Status != stepwell.StepCancelled || steps["tell"].Status != stepwell.StepSkipped {
			t.Errorf("write %v, read %v, tell %v", steps["write"].Status, steps["read"].Status, steps["tell"].Status)
		}
	})
}

// ticks gives items one after the other, a mark behind each, and from the tenth on only when it is let.
type ticks struct {
	n    int
	from int
	free chan struct{}
	got  chan<- int
}

// Read implements stream.Source.
func (s *ticks) Read(ctx context.Context, _ iter.Seq[*stream.Item], out stream.Out) error {
	for i := s.from; i < s.n; i++ {
		if i >= 10 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-s.free:
			}
		}
		if err := out.Item(stream.Lazy(fmt.Appendf(nil, `{"id":"%d"}`, i), stream.Place{})); err != nil {
			return err
		}
		if err := out.Mark(i + 1); err != nil {
			return err
		}
		if i == 9 {
			select {
			case s.got <- i:
			default:
			}
		}
	}
	return nil
}

func ticking(free chan struct{}, got chan<- int) stream.Module {
	return stream.Module{Spec: spec.Spec{Name: "test.ticks", Summary: "For tests.", Stream: &spec.Stream{Role: spec.Source}},
		Open: func(_ context.Context, env *stream.Env, _ map[string]any) (any, error) {
			s := &ticks{n: 20, free: free, got: got}
			_, err := stream.State(env.Cursor, &s.from)
			return s, err
		}}
}

// A process that is to end stops a stream at its checkpoint instead of waiting for its last item; whoever takes
// the execution up goes on there, and nothing is written twice.
func TestStreamDrain(t *testing.T) {
	r := newStreamRig(t)
	free, got := make(chan struct{}), make(chan int, 1)
	r.o.Modules = []stream.Module{ticking(free, got)}
	var id string
	r.with(func(a *app.App) {
		id = r.start(a, "name: ticks\nsteps:\n  - {id: tick, module: test.ticks}\n  - {id: write, module: stream.write, depends_on: [tick], config: {path: out.ndjson}}\n")
		<-got
	})
	close(free)
	r.with(func(a *app.App) {
		if err := a.Conductor.Recover(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if x, steps := r.end(a, id); x.Status != stepwell.ExecutionCompleted || steps["tick"].Attempt > 2 {
			t.Errorf("the execution is %v: %+v", x.Status, x.Failure)
		}
	})
	var want strings.Builder
	for i := range 20 {
		fmt.Fprintf(&want, "{\"id\":\"%d\"}\n", i)
	}
	if got := r.read("out.ndjson"); got != want.String() {
		t.Errorf("wrote\n%s", got)
	}
}

// The iterations of a for_each are streams of their own: each has its failures in the report.
func TestStreamIterations(t *testing.T) {
	r := newStreamRig(t)
	for _, name := range []string{"a", "b"} {
		r.file(name+".ndjson", "{\"n\":1}\nnonsense\n")
	}
	r.with(func(a *app.App) {
		x, _ := r.end(a, r.start(a, `
name: each
steps:
  - id: g
    for_each: [a, b]
    steps:
      - {id: read, module: stream.read, config: {path: "{{ item }}.ndjson"}}
      - {id: write, module: stream.write, depends_on: [read], config: {path: "out-{{ item }}.ndjson"}}
`))
		if x.Status != stepwell.ExecutionCompletedWithFailures {
			t.Errorf("the execution is %v: %+v", x.Status, x.Failure)
		}
	})
	if report := r.read("failures.json"); strings.Count(report, `"step_id"`) != 2 || !strings.Contains(report, `"a.ndjson"`) || !strings.Contains(report, `"b.ndjson"`) {
		t.Error(report)
	}
	if r.read("out-a.ndjson") != r.read("out-b.ndjson") {
		t.Error("the iterations have written different things")
	}
}

// Two streams of one execution cannot replace the same file, also not one after the other: the later would replace
// what the earlier has written. What validate cannot see, as the place is a template, the run refuses.
func TestStreamsSamePlace(t *testing.T) {
	for _, sink := range []string{"module: stream.write, config: {path: '{{ execution.pipeline }}.ndjson'}", "module: stac.output, config: {format: ndjson, output_path: '{{ execution.pipeline }}.ndjson', write: replace}",
		"module: stac.output, config: {format: parquet, base_dir: '{{ execution.pipeline }}', write: replace}", "module: stac.output, config: {format: json, base_dir: '{{ execution.pipeline }}', write: replace}"} {
		r := newStreamRig(t)
		r.file("in.ndjson", `{"type":"Feature","stac_version":"1.0.0","id":"a","collection":"c","geometry":null,"properties":{"datetime":"2026-01-01T00:00:00Z"},"links":[],"assets":{}}`+"\n")
		r.with(func(a *app.App) {
			x, steps := r.end(a, r.start(a, `
name: twice
steps:
  - {id: read, module: stream.read, config: {path: in.ndjson}}
  - {id: write, depends_on: [read], `+sink+`}
  - {id: read2, module: stream.read, depends_on: [write], config: {path: in.ndjson}}
  - {id: write2, depends_on: [read2], `+sink+`}
`))
			if x.Status != stepwell.ExecutionFailed || steps["write"].Status != stepwell.StepCompleted || steps["write2"].Status != stepwell.StepFailed ||
				!strings.Contains(steps["write2"].Error.Message, "another stream of this execution") {
				t.Errorf("%s: the execution is %v: %+v", sink, x.Status, x.Failure)
			}
		})
	}
}
