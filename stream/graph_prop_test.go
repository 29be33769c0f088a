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

// modelStep is a step of a random graph: a source of so many items, a sink, or a modifier. A modifier drops the items
// whose number is divisible by drop, fails at fail, gives those divisible by rename another id, and sets `last` of
// those divisible by mark. All items it tags under its own name, and in `names` it puts its own name and removes another.
type modelStep struct {
	id             string
	role           string
	items          int
	bad            int // every so many texts are no JSON
	drop, fail     int
	rename, mark   int
	removes        string
	parallel, slow bool
	inputs         []int
	fuse           *atomic.Int64 // of a bomb: so many items later the segment is ended
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
		steps = append(steps, modelStep{id: fmt.Sprint("m", i), role: "modifier", drop: divisor("drop", 2), fail: divisor("fail", 3), rename: divisor("rename", 5), mark: divisor("mark", 3), removes: rapid.SampledFrom([]string{"", "", "0", "1", "2", "3"}).Draw(t, "removes"),
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

// model says what a graph does without running it. What is at a path of an item is what the last step that set it has
// set; steps of different branches that set it to different values are a conflict where the branches join.
func model(steps []modelStep) (sinks map[string][]string, failures map[string]int) {
	out := make([]map[place]bool, len(steps))
	before := make([]map[int]bool, len(steps)) // the step itself, and those that its items have been through
	failures, sinks = map[string]int{}, map[string][]string{}
	for i, s := range steps {
		out[i], before[i] = map[place]bool{}, map[int]bool{i: true}
		for _, in := range s.inputs {
			maps.Copy(before[i], before[in])
		}
		for n := range s.items {
			if s.bad > 0 && n%s.bad == 0 {
				failures[s.id]++
				continue
			}
			out[i][place{i, n}] = true
		}
		for source := range before[i] {
			for n := range steps[source].items {
				at := place{source, n}
				if source == i || slices.ContainsFunc(s.inputs, func(in int) bool { return before[in][source] && !out[in][at] }) {
					continue
				}
				h := history{steps: steps, before: before, of: at}
				h.through = h.on(i)
				delete(h.through, i)
				if h.conflict() || s.role == "modifier" && s.fail > 0 && n%s.fail == 0 {
					failures[s.id]++
					continue
				}
				if s.role == "sink" {
					sinks[s.id] = append(sinks[s.id], h.item())
				}
				out[i][at] = s.role == "modifier" && (s.drop == 0 || n%s.drop != 0)
			}
		}
		slices.Sort(sinks[s.id])
	}
	return sinks, failures
}

// history is the modifiers that an item has been through.
type history struct {
	steps   []modelStep
	before  []map[int]bool
	of      place
	through map[int]bool
}

// on are the modifiers on the way of the item to a step.
func (h *history) on(step int) map[int]bool {
	out := map[int]bool{}
	for i := range h.before[step] {
		if h.steps[i].role == "modifier" && h.before[i][h.of.source] {
			out[i] = true
		}
	}
	return out
}

// last are the steps, among some, that set something of the item, and after which no other does.
func (h *history) last(among map[int]bool, every func(*modelStep) int) (out []int) {
	sets := func(i int) bool { d := every(&h.steps[i]); return d > 0 && h.of.number%d == 0 }
	for i := range among {
		if !sets(i) {
			continue
		}
		later := false
		for j := range among {
			later = later || j != i && h.before[j][i] && sets(j)
		}
		if !later {
			out = append(out, i)
		}
	}
	return out
}

func renames(s *modelStep) int { return s.rename }
func marks(s *modelStep) int   { return s.mark }

func (h *history) conflict() bool {
	return len(h.last(h.through, renames)) > 1 || len(h.last(h.through, marks)) > 1
}

func (h *history) id(through map[int]bool) string {
	last := h.last(through, renames)
	if len(last) == 0 {
		return fmt.Sprint(h.steps[h.of.source].id, "-", h.of.number)
	}
	through = h.on(last[0])
	delete(through, last[0])
	return h.id(through) + "'" + h.steps[last[0]].id
}

func (h *history) item() string {
	it := map[string]any{"id": h.id(h.through), "n": h.of.number, "tags": map[string]any{}}
	names := map[string]bool{"0": true, "1": true, "2": true, "3": true}
	for i := range h.through {
		s := &h.steps[i]
		it["tags"].(map[string]any)[s.id] = true
		names[s.id] = true
		if s.removes != "" {
			names[s.removes] = false
		}
	}
	var list []string
	for name, there := range names {
		if there {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	if it["names"] = list; list == nil {
		it["names"] = []string{}
	}
	for _, i := range h.last(h.through, marks) {
		it["last"] = h.steps[i].id
	}
	raw, _ := json.Marshal(it)
	return string(raw)
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
				text := fmt.Sprintf(`{"id":"%s-%d","n":%d,"tags":{},"names":["0","1","2","3"]}`, st.id, n, n)
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
	names := item.NewList()
	for _, e := range it.Get("names").Elements() {
		if name, _ := e.Str(); name != s.removes {
			names.Append(e.Clone())
		}
	}
	names.Append(item.OfText(s.id))
	it.Set("names", names)
	if s.mark > 0 && n%s.mark == 0 {
		it.Set("last", item.OfText(s.id))
	}
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
		slices.SortFunc(v["names"].([]any), func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
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
