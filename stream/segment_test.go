package stream_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/streamtest"
)

func TestMain(m *testing.M) {
	if child() {
		return
	}
	goleak.VerifyTestMain(m)
}

// numbered makes the texts of n items.
func numbered(n int) []string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf(`{"id":"i%d","n":%d}`, i, i)
	}
	return items
}

// number is the member n of an item.
func number(it *stream.Item) int {
	f, _ := it.Get("n").Float()
	return int(f)
}

// put sets a member to true.
func put(it *stream.Item, key string) *stream.Item {
	v, _ := item.Parse([]byte("true"))
	it.Set(key, v)
	return it
}

func TestChain(t *testing.T) {
	sink := streamtest.Collect("sink")
	s := streamtest.Segment{
		Modules: []stream.Module{
			streamtest.Source("source", slices.Insert(numbered(1000), 500, `{"id":`)...),
			streamtest.Modifier("odd", true, func(_ context.Context, it *stream.Item) (*stream.Item, error) {
				if number(it)%2 == 0 {
					return nil, nil
				}
				return put(it, "odd"), nil
			}),
			streamtest.Modifier("seven", false, func(_ context.Context, it *stream.Item) (*stream.Item, error) {
				if number(it)%7 == 0 {
					return nil, errors.New("seven")
				}
				return it, nil
			}),
			sink.Module(),
		},
		Steps: streamtest.Chain("source", nil, "odd", nil, "seven", nil, "sink", nil),
	}
	got := streamtest.Run(t.Context(), t, s)
	if got.Err != nil {
		t.Fatal(got.Err)
	}
	var want []string
	failures := 1
	for i := range 1000 {
		switch {
		case i%2 == 1 && i%7 == 0:
			failures++
		case i%2 == 1:
			want = append(want, fmt.Sprintf(`{"id":"i%d","n":%d,"odd":true}`, i, i))
		}
	}
	if diff := cmp.Diff(want, sink.Items()); diff != "" {
		t.Error(diff)
	}
	if len(got.Failures) != failures {
		t.Errorf("%d failures, want %d", len(got.Failures), failures)
	}
	bad := slices.IndexFunc(got.Failures, func(f map[string]any) bool { return f["step_id"] == "source" })
	if bad < 0 || cmp.Diff(got.Failures[bad]["context"], map[string]any{"source_file": "source", "line_number": 501.0}) != "" {
		t.Errorf("failure of the bad line: %v", got.Failures)
	}
	for step, want := range map[string][3]int64{"source": {1001, 1000, 1}, "odd": {1000, 500, 0}, "seven": {500, int64(501 - failures), int64(failures - 1)}, "sink": {int64(501 - failures), int64(501 - failures), 0}} {
		o := got.Outputs[step]
		if in := [3]int64{o["items_in"].(int64), o["items_out"].(int64), o["items_failed"].(int64)}; in != want {
			t.Errorf("%s: in, out, failed = %v, want %v", step, in, want)
		}
	}
	if c := got.Counts["odd"]; c.In != 1000 || c.Out != 500 || c.Total != 1001 {
		t.Errorf("told counts %+v", c)
	}
	if got.Report["status"] != "completed_with_failures" || got.Report["success"] != true || sink.Closed() != 1 {
		t.Errorf("report %v", got.Report)
	}
}

// TestLogLevel: a step says no more than its log_level allows; one that does not exist is INFO.
func TestLogLevel(t *testing.T) {
	talks := stream.Module{Spec: spec.Spec{Name: "talks", Summary: "Says something.", Stream: &spec.Stream{Role: spec.Source}},
		Open: func(_ context.Context, env *stream.Env, _ map[string]any) (any, error) {
			for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
				env.Log(level, "word")
			}
			return part{read: func(context.Context, iter.Seq[*stream.Item], stream.Out) error { return nil }}, nil
		}}
	for level, want := range map[string]int{"": 4, "debug": 4, "WARNING": 2, "Error": 1, "loud": 3} {
		got := mustRun(t, streamtest.Segment{Modules: []stream.Module{talks}, Steps: []stream.Step{{ID: "s", Module: "talks", LogLevel: level}}})
		if len(got.Lines) != want {
			t.Errorf("%q: %d lines, want %d: %v", level, len(got.Lines), want, got.Lines)
		}
	}
}
