package stream_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/streamtest"
)

// printed runs a source with boxes into a sink, of which some fail, and gives what its footprints say. A sink that goes on from what it has
// kept is the same one in each run of an execution.
func printed(t *testing.T, dir, execution string, sink *streamtest.Collector, settings map[string]any, fails func(id string) bool, q stream.FootprintQuery, items ...string) []string {
	t.Helper()
	got := streamtest.Run(t.Context(), t, streamtest.Segment{Checkpoints: dir, Execution: execution, Settings: settings,
		Modules: []stream.Module{streamtest.Source("read", items...), streamtest.Modifier("check", true, func(_ context.Context, it *stream.Item) (*stream.Item, error) {
			if fails(it.ID()) {
				return nil, errors.New("it fails")
			}
			return it, nil
		}), sink.Module()},
		Steps: streamtest.Chain("read", nil, "check", nil, "keep", nil)})
	if got.Err != nil {
		t.Fatal(got.Err)
	}
	return footprints(t, dir, execution, q)
}

func footprints(t *testing.T, dir, execution string, q stream.FootprintQuery) (out []string) {
	t.Helper()
	page, err := stream.Footprints(t.Context(), stream.Options{Dir: dir}, "flow", execution, q)
	if err != nil || !page.Complete {
		t.Fatal(page.Complete, err)
	}
	for _, f := range page.Rows {
		line := fmt.Sprintf("%v failed=%v %s/%s", f.Box, f.Failed, f.Item.Collection, f.Item.ID)
		if f.Item.Failure != nil {
			line += fmt.Sprint(" ", strings.Contains(string(f.Item.Failure), "it fails") && !strings.Contains(string(f.Item.Failure), "bbox"))
		}
		out = append(out, line)
	}
	return out
}

var boxed = []string{`{"id":"a","collection":"c","bbox":[1,2,3,4]}`, `{"id":"b","bbox":[179,-1,-179,1]}`, `{"id":"none"}`, `{"id":7,"bbox":[-10,-10,-9,-9]}`}

func TestFootprints(t *testing.T) {
	all := stream.FootprintQuery{Names: true, Most: 100}
	b := func(id string) bool { return id == "b" }
	for _, settings := range []map[string]any{nil, {"checkpoint": false}} {
		dir := t.TempDir()
		want := []string{"[1 2 3 4] failed=false c/a", "[179 -1 -179 1] failed=true /b true", "[-10 -10 -9 -9] failed=false /7"}
		if diff := cmp.Diff(want, printed(t, dir, "x", streamtest.Collect("keep"), settings, b, all, boxed...)); diff != "" {
			t.Error(settings, diff)
		}
		page := all
		page.From, page.Most = 1, 1
		if diff := cmp.Diff(want[1:2], footprints(t, dir, "x", page)); diff != "" {
			t.Error(diff)
		}
		for _, c := range []struct {
			in   stream.Box
			want []string
		}{
			{stream.Box{3, 4, 5, 5}, want[:1]},
			{stream.Box{-180, -5, -179.5, 5}, want[1:2]},
			{stream.Box{178, -20, -8, 20}, want[1:]},
			{stream.Box{50, 50, 60, 60}, nil},
		} {
			in := all
			in.In = &c.in
			if diff := cmp.Diff(c.want, footprints(t, dir, "x", in)); diff != "" {
				t.Error(c.in, diff)
			}
		}
		if got := footprints(t, dir, "another", all); got != nil {
			t.Error(got)
		}
	}
}

// A restart in place repeats what has failed: an item is there once, as it is in the end. Another execution has its own items.
func TestFootprintsOfLaterRuns(t *testing.T) {
	dir, all, sink := t.TempDir(), stream.FootprintQuery{Names: true, Most: 100}, streamtest.Collect("keep")
	never := func(string) bool { return false }
	printed(t, dir, "x", sink, nil, func(id string) bool { return id == "b" }, all, boxed...)
	want := []string{"[1 2 3 4] failed=false c/a", "[179 -1 -179 1] failed=false /b", "[-10 -10 -9 -9] failed=false /7"}
	if diff := cmp.Diff(want, printed(t, dir, "x", sink, nil, never, all, boxed...)); diff != "" {
		t.Error(diff)
	}
	if kept := sink.Items(); len(kept) != len(boxed) {
		t.Errorf("the sink has %v: what was done is not repeated", kept)
	}
	more := append(boxed, `{"id":"new","bbox":[0,0,1,1]}`)
	if diff := cmp.Diff(append(slices.Clone(want), "[0 0 1 1] failed=false /new"), printed(t, dir, "later", streamtest.Collect("keep"), nil, never, all, more...)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, footprints(t, dir, "x", all)); diff != "" {
		t.Error(diff)
	}
}

// A source that has changed is read anew in the same execution: each item keeps its own place on the map, whether it is new,
// was done before under the number that another one has now, or fails under that of a done one.
func TestFootprintsOfAChangedSource(t *testing.T) {
	dir, sink := t.TempDir(), streamtest.Collect("sink")
	run := func(items ...string) {
		t.Helper()
		s := through(dir, items, sink, func(_ context.Context, it *stream.Item) (*stream.Item, error) {
			if it.ID() == "b" {
				return nil, errors.New("it fails")
			}
			return it, nil
		})
		s.Execution = "x"
		mustRun(t, s)
	}
	run(boxed...)
	run(append([]string{`{"id":"new","bbox":[0,0,1,1]}`, `{"id":"second","bbox":[5,5,6,6]}`}, boxed...)...) // b is now the fourth, as 7 was
	if len(sink.Items()) != 5 {
		t.Fatalf("the stream began from the beginning: %q", sink.Items())
	}
	want := []string{"[-10 -10 -9 -9] failed=false /7", "[0 0 1 1] failed=false /new", "[1 2 3 4] failed=false c/a", "[179 -1 -179 1] failed=true /b true", "[5 5 6 6] failed=false /second"}
	got := footprints(t, dir, "x", stream.FootprintQuery{Names: true, Most: 100})
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
