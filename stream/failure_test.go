package stream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/streamtest"
)

// everyTenth fails for one item of ten.
func everyTenth(_ context.Context, it *stream.Item) (*stream.Item, error) {
	if number(it)%10 == 9 {
		return nil, &stream.Error{Type: stream.ValidationError, Context: stream.Context{Pointer: "/n", Keyword: "multipleOf"}, Err: errors.New("wrong")}
	}
	return it, nil
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		limit  string
		strict bool
		items  int
		want   string // part of the error, "" for none
	}{
		{"", false, 1000, ""},
		{"100", false, 1000, ""},
		{"99", false, 1000, "100 items failed; max_failures is 99"},
		{"0", false, 1000, "max_failures is 0"},
		{"10%", false, 1000, ""},
		{"9.5%", false, 1000, "max_failures is 9.5%"},
		{"5%", false, 20, "2 of 20 items failed"},
		{"", true, 1000, "item i9 failed, and strict is set: wrong"},
		{"many", false, 10, `max_failures "many" is not a number`},
		{"0%", false, 10, `max_failures "0%" is not a share`},
	} {
		t.Run(fmt.Sprint(c.limit, c.strict, c.items), func(t *testing.T) {
			s := through(t.TempDir(), texts(0, c.items), streamtest.Collect("sink"), everyTenth)
			s.Settings = map[string]any{"max_failures": c.limit, "strict": c.strict, "batch": 10, "workers": 1}
			got := streamtest.Run(t.Context(), t, s)
			if c.want == "" {
				if got.Err != nil || got.Report["status"] != "completed_with_failures" {
					t.Errorf("%v, %v", got.Err, got.Report)
				}
				return
			}
			if got.Err == nil || !strings.Contains(got.Err.Error(), c.want) || !action.IsFail(got.Err) || stepwell.HintOf(got.Err) == "" {
				t.Errorf("%v", got.Err)
			}
			if got.Report["status"] != "failed" {
				t.Errorf("%v", got.Report)
			}
		})
	}
}

func TestFailureRecord(t *testing.T) {
	s := through(t.TempDir(), texts(0, 10), streamtest.Collect("sink"), everyTenth)
	got := mustRun(t, s)
	if len(got.Failures) != 1 {
		t.Fatal(got.Failures)
	}
	f := got.Failures[0]
	if _, err := time.Parse(time.RFC3339, f["timestamp"].(string)); err != nil {
		t.Error(err)
	}
	delete(f, "timestamp")
	want := map[string]any{"step_id": "modifier", "item_id": "i9", "error_type": "ValidationError", "message": "wrong",
		"context": map[string]any{"source_file": "source", "line_number": 10.0, "pointer": "/n", "keyword": "multipleOf"}}
	if diff := cmp.Diff(want, f); diff != "" {
		t.Error(diff)
	}
}

func TestLongMessage(t *testing.T) {
	long := strings.Repeat("ж", 2000)
	got := mustRun(t, through(t.TempDir(), texts(0, 1), streamtest.Collect("sink"), func(context.Context, *stream.Item) (*stream.Item, error) {
		return nil, errors.New(long)
	}))
	if m := got.Failures[0]["message"].(string); !strings.HasPrefix(long, strings.TrimSuffix(m, "…")) || len(m) > 1010 {
		t.Errorf("%d bytes: %s", len(m), m)
	}
}

func TestPanic(t *testing.T) {
	for _, parallel := range []bool{true, false} {
		s := streamtest.Segment{Modules: []stream.Module{streamtest.Source("source", texts(0, 1000)...), streamtest.Collect("sink").Module(),
			streamtest.Modifier("first", parallel, pass),
			streamtest.Modifier("second", parallel, func(_ context.Context, it *stream.Item) (*stream.Item, error) {
				if number(it) == 500 {
					panic("oh")
				}
				return it, nil
			})}, Steps: streamtest.Chain("source", nil, "first", nil, "second", nil, "sink", nil)}
		got := streamtest.Run(t.Context(), t, s)
		if m, ok := errors.AsType[*action.MemberError](got.Err); !ok || m.Member != "second" || stepwell.CodeOf(got.Err) != stepwell.CodePanic {
			t.Errorf("%v", got.Err)
		}
	}
}

// part is a component made of functions.
type part struct {
	read   func(ctx context.Context, in iter.Seq[*stream.Item], out stream.Out) error
	finish func(error) (any, error)
}

func (p part) Read(ctx context.Context, in iter.Seq[*stream.Item], out stream.Out) error {
	return p.read(ctx, in, out)
}

func (p part) Finish(failed error) (any, error) {
	if p.finish == nil {
		return nil, nil
	}
	return p.finish(failed)
}

// TestCancel: a source that would never end is left at once, and sinks are abandoned.
func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var finished error
	endless := module("endless", spec.Stream{Role: spec.Source}, part{finish: func(failed error) (any, error) { finished = failed; return nil, nil },
		read: func(ctx context.Context, _ iter.Seq[*stream.Item], out stream.Out) error {
			for i := 0; ; i++ {
				if err := out.Item(stream.Lazy([]byte(fmt.Sprintf(`{"id":"i%d","n":%d}`, i, i)), stream.Place{})); err != nil {
					return err
				}
				if i == 5000 {
					cancel()
				}
			}
		}})
	sink := streamtest.Collect("sink")
	got := streamtest.Run(ctx, t, streamtest.Segment{Modules: []stream.Module{endless, sink.Module(), streamtest.Modifier("modifier", true, pass)},
		Steps: streamtest.Chain("endless", nil, "modifier", nil, "sink", nil)})
	if !errors.Is(got.Err, context.Canceled) || finished == nil || sink.Closed() != 0 {
		t.Errorf("%v, finished %v, closed %d", got.Err, finished, sink.Closed())
	}
}

// TestSlowBranch: with one slow branch of a tee the items under way stay few.
func TestSlowBranch(t *testing.T) {
	var live, most atomic.Int64
	items := 20_000
	source := module("source", spec.Stream{Role: spec.Source}, part{read: func(_ context.Context, _ iter.Seq[*stream.Item], out stream.Out) error {
		for i := range items {
			now := live.Add(1)
			most.Store(max(most.Load(), now))
			if err := out.Item(stream.Lazy([]byte(fmt.Sprintf(`{"id":"i%d","n":%d}`, i, i)), stream.Place{})); err != nil {
				return err
			}
		}
		return nil
	}})
	gate := make(chan struct{}, 1)
	slow := streamtest.Modifier("slow", false, func(_ context.Context, it *stream.Item) (*stream.Item, error) {
		gate <- struct{}{} // hands over to the other side for every item
		<-gate
		return it, nil
	})
	sink := streamtest.Collect("sink")
	count := streamtest.Modifier("count", false, func(_ context.Context, it *stream.Item) (*stream.Item, error) {
		live.Add(-1)
		return it, nil
	})
	got := streamtest.Run(t.Context(), t, streamtest.Segment{Modules: []stream.Module{source, slow, streamtest.Modifier("fast", true, pass), count, sink.Module()},
		Settings: map[string]any{"batch": 16, "workers": 2},
		Steps: []stream.Step{{ID: "source", Module: "source"}, {ID: "slow", Module: "slow", Inputs: []string{"source"}}, {ID: "fast", Module: "fast", Inputs: []string{"source"}},
			{ID: "count", Module: "count", Inputs: []string{"fast", "slow"}}, {ID: "sink", Module: "sink", Inputs: []string{"count"}}}})
	if got.Err != nil || len(sink.Items()) != items {
		t.Fatal(got.Err, len(sink.Items()))
	}
	if most.Load() > 16*30 { // batches in the buffers and hands of six stages
		t.Errorf("%d items were under way", most.Load())
	}
}

// TestHandOff: a source takes the items of another and makes more of each; resumed, it begins anew, and what is
// done is skipped behind it.
func TestHandOff(t *testing.T) {
	dir, sink := t.TempDir(), streamtest.Collect("sink")
	stop := true
	more := module("more", spec.Stream{Role: spec.Source, TakesItems: true}, part{
		finish: func(error) (any, error) { return map[string]any{"kind": "more"}, nil },
		read: func(_ context.Context, in iter.Seq[*stream.Item], out stream.Out) error {
			for it := range in {
				for i := range 3 {
					n := number(it)*3 + i
					if n == 200 && stop {
						return errors.New("away")
					}
					if err := out.Item(stream.Lazy([]byte(fmt.Sprintf(`{"id":"i%d","n":%d}`, n, n)), stream.Place{})); err != nil {
						return err
					}
				}
			}
			return nil
		}})
	s := streamtest.Segment{Checkpoints: dir, Modules: []stream.Module{streamtest.Source("source", texts(0, 100)...), more, sink.Module()},
		Steps: streamtest.Chain("source", nil, "more", nil, "sink", nil), Settings: map[string]any{"batch": 8, "checkpoint_interval": 0.001}}
	if got := streamtest.Run(t.Context(), t, s); got.Err == nil || action.IsFail(got.Err) {
		t.Fatal(got.Err)
	}
	stop = false
	got := mustRun(t, s)
	if diff := cmp.Diff(texts(0, 300), sink.Items()); diff != "" {
		t.Error(diff)
	}
	if o := got.Outputs["more"]; o["items_in"] != int64(100) || o["kind"] != "more" || o["items_out"].(int64)+o["items_skipped"].(int64) != 300 {
		t.Errorf("%v", o)
	}
}

func TestTopology(t *testing.T) {
	modules := []stream.Module{streamtest.Source("source"), streamtest.Modifier("modifier", true, pass), streamtest.Collect("sink").Module()}
	for name, c := range map[string]struct {
		steps []stream.Step
		want  string
	}{
		"circle":  {[]stream.Step{{ID: "s", Module: "source"}, {ID: "a", Module: "modifier", Inputs: []string{"b"}}, {ID: "b", Module: "modifier", Inputs: []string{"a"}}}, "the steps a, b take each other's items in a circle"},
		"unknown": {[]stream.Step{{ID: "k", Module: "sink", Inputs: []string{"s"}}}, `step k takes the items of "s", which is not in the segment`},
		"module":  {[]stream.Step{{ID: "k", Module: "sing"}}, `step k: unknown module "sing"`},
		"nothing": {[]stream.Step{{ID: "k", Module: "sink"}}, "step k takes items, but no source is before it"},
		"source":  {[]stream.Step{{ID: "s", Module: "source"}, {ID: "t", Module: "source", Inputs: []string{"s"}}}, "step t makes items and takes none, but has s before it"},
		"sink":    {[]stream.Step{{ID: "s", Module: "source"}, {ID: "k", Module: "sink", Inputs: []string{"s"}}, {ID: "l", Module: "sink", Inputs: []string{"k"}}}, "step k is a sink: no items come out of it for l"},
		"config":  {[]stream.Step{{ID: "s", Module: "source", Config: map[string]any{"what": 1}}}, "what"},
	} {
		got := streamtest.Run(t.Context(), t, streamtest.Segment{Modules: modules, Steps: c.steps})
		if got.Err == nil || !strings.Contains(got.Err.Error(), c.want) || got.Report["status"] != "failed" {
			t.Errorf("%s: %v", name, got.Err)
		}
	}
}

func TestModuleIsNoAction(t *testing.T) {
	r := new(action.Registry)
	m := streamtest.Source("source")
	m.Check = func(map[string]any) []error { return []error{errors.New("no")} }
	if err := stream.Register(r, stream.Options{Dir: t.TempDir()}, m); err != nil {
		t.Fatal(err)
	}
	a, ok := r.Lookup("source")
	if !ok || a.Spec.Stream == nil {
		t.Fatal("it is not there")
	}
	_, err := a.Handler.Run(t.Context(), &action.Call{})
	if !action.IsFail(err) || !strings.Contains(stepwell.HintOf(err), "module: source") {
		t.Errorf("%v", err)
	}
	if problems := r.Validate("source", nil); len(problems) != 1 {
		t.Errorf("%v", problems)
	}
	if err := stream.Register(new(action.Registry), stream.Options{}, stream.Module{Spec: spec.Spec{Name: "x"}}); err == nil {
		t.Error("a module without a role is taken")
	}
}

// TestReport reads the files as others would.
func TestReport(t *testing.T) {
	dir, files := t.TempDir(), t.TempDir()
	for _, entry := range []string{"a/b", "c"} {
		s := through(dir, texts(0, 20), streamtest.Collect("sink"), everyTenth)
		s.Entry, s.Collection = entry, map[string]any{"id": "sentinel 2"}
		mustRun(t, s)
	}
	r := new(action.Registry)
	if err := stream.Register(r, stream.Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	report, _ := r.Lookup("stream.report")
	value, err := report.Handler.Run(t.Context(), &action.Call{Execution: "execution", Pipeline: "flow", Dir: files,
		Params: map[string]any{"summary": "out/summary.json", "steps": 6}})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var outputs map[string]any
	if err := json.Unmarshal(raw, &outputs); err != nil {
		t.Fatal(err)
	}
	text := outputs["summary"].(string)
	for _, want := range []string{"flow: completed with failures\n40 items in ", ", 4 failures", "a/b/sentinel 2 modifier: 20 items, 18 passed on, 2 failed"} {
		if !strings.Contains(text, want) {
			t.Errorf("summary without %q:\n%s", want, text)
		}
	}
	path := filepath.Join(files, "failures.json")
	delete(outputs, "summary")
	delete(outputs, "duration_seconds")
	if diff := cmp.Diff(map[string]any{"success": true, "status": "completed_with_failures", "failure_count": 4.0, "failures_path": path, "total_items_processed": 40.0, "items_not_fully_checked": 0.0}, outputs); diff != "" {
		t.Error(diff)
	}
	failures := readJSON(t, path)
	if list := failures["failures"].([]any); len(list) != 4 || list[0].(map[string]any)["at"] != nil {
		t.Errorf("%v", list)
	}
	for _, name := range []string{"failures", "started_at", "ended_at"} {
		delete(failures, name)
	}
	if diff := cmp.Diff(map[string]any{"workflow_name": "flow", "workflow_id": "execution", "total_steps": 6.0, "total_failures": 4.0,
		"failures_by_step": map[string]any{"modifier": 4.0}}, failures); diff != "" {
		t.Error(diff)
	}
	if sum := readJSON(t, filepath.Join(files, "out/summary.json")); sum["status"] != "completed_with_failures" || len(sum["segments"].([]any)) != 2 {
		t.Errorf("%v", sum)
	}
	old := time.Now().Add(-31 * 24 * time.Hour)
	runs := filepath.Join(dir, "flow", "runs")
	if err := errors.Join(os.Mkdir(filepath.Join(runs, "old"), 0o755), os.Chtimes(filepath.Join(runs, "old"), old, old)); err != nil {
		t.Fatal(err)
	}
	if _, err := report.Handler.Run(t.Context(), &action.Call{Execution: "none", Pipeline: "flow", Dir: files}); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(runs); len(left) != 1 {
		t.Errorf("%v", left)
	}
}

func readJSON(t *testing.T, path string) map[string]any {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}
