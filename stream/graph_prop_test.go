package stream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/streamtest"
)

// modelStep is a step of a random graph: a source of so many items, a modifier that drops the items
// whose number is divisible by drop, fails at fail, renames at rename and tags the others, or a sink.
type modelStep struct {
	id                 string
	role               string
	items              int
	bad                int // every so many texts are no JSON
	drop, fail, rename int
	parallel, slow     bool
	inputs             []int
	fuse               *atomic.Int64 // of a bomb: so many items later the segment is ended
}

func drawGraph(t *rapid.T) []modelStep {
	var steps []modelStep
	divisor := func(name string, often int) int {
		if rapid.IntRange(0, often).Draw(t, name+"?") != 0 {
			return 0
		}
		return rapid.IntRange(2, 9).Draw(t, name)
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "sources") {
		steps = append(steps, modelStep{id: fmt.Sprint("s", i), role: "source", items: rapid.IntRange(0, 300).Draw(t, "items"), bad: divisor("bad", 3)})
	}
	for i := range rapid.IntRange(0, 8).Draw(t, "modifiers") {
		steps = append(steps, modelStep{id: fmt.Sprint("m", i), role: "modifier", drop: divisor("drop", 2), fail: divisor("fail", 3), rename: divisor("rename", 5),
			parallel: rapid.Bool().Draw(t, "parallel"), slow: rapid.Bool().Draw(t, "slow"), inputs: drawInputs(t, len(steps))})
	}
	above := len(steps)
	for i := range rapid.IntRange(1, 3).Draw(t, "sinks") {
		steps = append(steps, modelStep{id: fmt.Sprint("k", i), role: "sink", inputs: drawInputs(t, above)})
	}
	return steps
}

func drawInputs(t *rapid.T, above int) []int {
	n := rapid.SampledFrom([]int{1, 1, 1, 2, 2, 3}).Draw(t, "inputs")
	return rapid.SliceOfNDistinct(rapid.IntRange(0, above-1), 1, min(n, above), rapid.ID[int]).Draw(t, "from")
}

type place struct{ source, number int }

// model runs a graph one step at a time, with everything in memory.
func model(steps []modelStep) (sinks map[string][]string, failures map[string]int) {
	out := make([]map[place]map[string]any, len(steps))
	carries := make([]map[int]bool, len(steps))
	failures, sinks = map[string]int{}, map[string][]string{}
	for i, s := range steps {
		out[i], carries[i] = map[place]map[string]any{}, map[int]bool{}
		if s.role == "source" {
			carries[i][i] = true
			for n := range s.items {
				if s.bad > 0 && n%s.bad == 0 {
					failures[s.id]++
					continue
				}
				out[i][place{i, n}] = map[string]any{"id": fmt.Sprint(s.id, "-", n), "n": float64(n), "tags": map[string]any{}}
			}
			continue
		}
		for _, in := range s.inputs {
			maps.Copy(carries[i], carries[in])
		}
		for source := range carries[i] {
			for n := range steps[source].items {
				at := place{source, n}
				it, ok := joined(s.inputs, out, carries, at)
				if !ok {
					continue
				}
				if it == nil || s.fail > 0 && n%s.fail == 0 {
					failures[s.id]++
					continue
				}
				if s.drop > 0 && n%s.drop == 0 {
					continue
				}
				if s.role == "modifier" {
					it["tags"].(map[string]any)[s.id] = true
					it["last"] = s.id
					if s.rename > 0 && n%s.rename == 0 {
						it["id"] = it["id"].(string) + "'" + s.id
					}
				}
				out[i][at] = it
			}
		}
		if s.role == "sink" {
			for _, it := range out[i] {
				raw, _ := json.Marshal(it)
				sinks[s.id] = append(sinks[s.id], string(raw))
			}
			slices.Sort(sinks[s.id])
		}
	}
	return sinks, failures
}

// joined is what the inputs bring of one item; nil when their ids differ.
func joined(inputs []int, out []map[place]map[string]any, carries []map[int]bool, at place) (map[string]any, bool) {
	var it map[string]any
	differ := false
	for _, in := range inputs {
		if !carries[in][at.source] {
			continue
		}
		other, ok := out[in][at]
		if !ok {
			return nil, false
		}
		if it == nil {
			it = maps.Clone(other)
			it["tags"] = maps.Clone(other["tags"].(map[string]any))
			continue
		}
		differ = differ || it["id"] != other["id"]
		maps.Copy(it["tags"].(map[string]any), other["tags"].(map[string]any))
		if last, ok := other["last"]; ok {
			it["last"] = last
		}
	}
	if differ {
		return nil, true
	}
	return it, true
}

// segmentOf makes a real segment of a graph.
func segmentOf(steps []modelStep) (streamtest.Segment, map[string]*streamtest.Collector) {
	var s streamtest.Segment
	sinks := map[string]*streamtest.Collector{}
	for _, st := range steps {
		step := stream.Step{ID: st.id, Module: "x." + st.id}
		for _, in := range st.inputs {
			step.Inputs = append(step.Inputs, steps[in].id)
		}
		s.Steps = append(s.Steps, step)
		switch st.role {
		case "source":
			var texts []string
			for n := range st.items {
				text := fmt.Sprintf(`{"id":"%s-%d","n":%d,"tags":{}}`, st.id, n, n)
				if st.bad > 0 && n%st.bad == 0 {
					text = text[:len(text)-3]
				}
				texts = append(texts, text)
			}
			s.Modules = append(s.Modules, streamtest.Source(step.Module, texts...))
		case "modifier":
			s.Modules = append(s.Modules, streamtest.Modifier(step.Module, st.parallel, st.modify))
		case "sink":
			sinks[st.id] = streamtest.Collect(step.Module)
			s.Modules = append(s.Modules, sinks[st.id].Module())
		}
	}
	return s, sinks
}

func (s modelStep) modify(_ context.Context, it *stream.Item) (*stream.Item, error) {
	n := number(it)
	if s.fuse != nil && s.fuse.Add(-1) == 0 {
		return nil, stream.Abort(errors.New("the bomb"))
	}
	if s.slow && n%3 == 0 {
		for range 20 {
			runtime.Gosched()
		}
	}
	switch {
	case s.fail > 0 && n%s.fail == 0:
		return nil, errors.New("it fails")
	case s.drop > 0 && n%s.drop == 0:
		return nil, nil
	}
	yes, _ := item.Parse([]byte("true"))
	it.Get("tags").Set(s.id, yes)
	it.Set("last", item.OfText(s.id))
	if s.rename > 0 && n%s.rename == 0 {
		it.Set("id", item.OfText(it.ID()+"'"+s.id))
	}
	return it, nil
}

// TestGraphs compares random graphs with the model.
func TestGraphs(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		steps := drawGraph(r)
		s, sinks := segmentOf(steps)
		s.Checkpoints, s.Dir = t.TempDir(), t.TempDir()
		ordered := rapid.Bool().Draw(r, "ordered")
		s.Settings = map[string]any{"ordered": ordered, "workers": rapid.IntRange(1, 4).Draw(r, "workers"), "batch": rapid.IntRange(1, 60).Draw(r, "batch"),
			"checkpoint": rapid.Bool().Draw(r, "checkpoint")}
		got, err := streamtest.RunIn(t.Context(), s)
		if err != nil {
			r.Fatal(err)
		}
		compare(r, steps, sinks, got, ordered)
	})
}

// TestGraphsResumed does the same with segments that are ended by an error several times, and go on; and then
// once more, when all is done.
func TestGraphsResumed(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		steps := drawGraph(r)
		fuse := new(atomic.Int64)
		for i := range steps {
			steps[i].fuse = fuse
		}
		s, sinks := segmentOf(steps)
		s.Checkpoints, s.Dir = t.TempDir(), t.TempDir()
		ordered := rapid.Bool().Draw(r, "ordered")
		s.Settings = map[string]any{"ordered": ordered, "workers": rapid.IntRange(1, 4).Draw(r, "workers"), "batch": rapid.IntRange(1, 20).Draw(r, "batch"),
			"checkpoint_interval": 0.001}
		run := func() *streamtest.Outcome {
			got, err := streamtest.RunIn(t.Context(), s)
			if err != nil {
				r.Fatal(err)
			}
			return got
		}
		for _, n := range rapid.SliceOfN(rapid.Int64Range(1, 500), 0, 4).Draw(r, "bombs") {
			fuse.Store(n)
			if got := run(); got.Err == nil { // they had no more to do than that
				compare(r, steps, sinks, got, ordered)
				return
			} else if !strings.Contains(got.Err.Error(), "the bomb") {
				r.Fatal(got.Err)
			}
		}
		fuse.Store(0)
		got := run()
		compare(r, steps, sinks, got, ordered)
		failures := len(got.Failures)
		if got = run(); got.Err != nil || len(got.Failures) != failures {
			r.Errorf("later run: %v, %d failures instead of %d", got.Err, len(got.Failures), failures)
		}
		for id, sink := range sinks {
			if want, _ := model(steps); len(want[id]) != len(sink.Items()) {
				r.Errorf("%s has %d items after a later run, had %d", id, len(sink.Items()), len(want[id]))
			}
		}
	})
}

// compare compares what a segment did with the model.
func compare(r *rapid.T, steps []modelStep, sinks map[string]*streamtest.Collector, got *streamtest.Outcome, ordered bool) {
	if got.Err != nil {
		r.Fatal(got.Err)
	}
	want, failures := model(steps)
	for id, sink := range sinks {
		items := sink.Items()
		if ordered {
			checkOrder(r, items)
		}
		if diff := cmp.Diff(want[id], canonical(r, items)); diff != "" {
			r.Errorf("%s: %s", id, diff)
		}
	}
	found := map[string]int{}
	for _, f := range got.Failures {
		found[f["step_id"].(string)]++
	}
	if diff := cmp.Diff(failures, found); diff != "" {
		r.Errorf("failures: %s", diff)
	}
}

// canonical sorts items, and the members of each.
func canonical(t *rapid.T, items []string) []string {
	var out []string
	for _, text := range items {
		var v map[string]any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		raw, _ := json.Marshal(v)
		out = append(out, string(raw))
	}
	slices.Sort(out)
	return out
}

// checkOrder makes sure that the items of each source come in its order.
func checkOrder(t *rapid.T, items []string) {
	last := map[string]int{}
	for _, text := range items {
		var v struct {
			ID string
		}
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		source, rest, _ := strings.Cut(v.ID, "-")
		number, _, _ := strings.Cut(rest, "'")
		n, err := strconv.Atoi(number)
		if err != nil {
			t.Fatal(err)
		}
		if before, ok := last[source]; ok && n <= before {
			t.Fatalf("item %d of %s comes behind %d", n, source, before)
		}
		last[source] = n
	}
}
