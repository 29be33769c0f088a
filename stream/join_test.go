package stream_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/streamtest"
)

// change is a modifier of a test: what it does to one item, "drop" to drop it.
func changes(edits map[string]string) streamtest.Func {
	return func(_ context.Context, it *stream.Item) (*stream.Item, error) {
		for path, text := range edits {
			p, err := item.ParsePath(path)
			if err != nil {
				return nil, err
			}
			switch text {
			case "drop":
				if it.ID() == path {
					return nil, nil
				}
			case "":
				it.Drop(p)
			default:
				v, err := item.Parse([]byte(text))
				if err != nil {
					return nil, err
				}
				if err := it.Put(p, true, func([]string, *item.Value) (*item.Value, error) { return v, nil }); err != nil {
					return nil, err
				}
			}
		}
		return it, nil
	}
}

type edits = map[string]string

// branched is a segment of a source, modifiers and a sink. Steps are "id: input input" in order.
func branched(t *testing.T, items []string, does map[string]edits, merge string, steps ...string) (*streamtest.Collector, *streamtest.Outcome) {
	t.Helper()
	sink := streamtest.Collect("x.sink")
	s := streamtest.Segment{Modules: []stream.Module{streamtest.Source("x.source", items...), sink.Module()}}
	for id, edits := range does {
		s.Modules = append(s.Modules, streamtest.Modifier("x."+id, true, changes(edits)))
	}
	for _, text := range steps {
		id, inputs, _ := strings.Cut(text, ":")
		step := stream.Step{ID: id, Module: "x." + id, Inputs: strings.Fields(inputs)}
		if len(step.Inputs) > 1 {
			step.Merge = merge
		}
		s.Steps = append(s.Steps, step)
	}
	return sink, streamtest.Run(t.Context(), t, s)
}

// Two branches of a fork, joined: only what a branch changed counts (semantics §8).
func TestJoin(t *testing.T) {
	const from = `{"id":"1","x":0,"y":100.0,"keywords":["k"],"properties":{"updated":"2020-01-01T00:00:00Z"}}`
	for _, c := range []struct {
		name, merge string
		a, b        edits
		want        string // the item that arrives; empty: none does
		failure     string
	}{
		{name: "different paths", a: edits{"x": "1"}, b: edits{"z": "2"}, want: `{"id":"1","x":1,"y":100.0,"keywords":["k"],"properties":{"updated":"2020-01-01T00:00:00Z"},"z":2}`},
		{name: "a removal", a: edits{"x": ""}, b: edits{"z": "2"}, want: `{"id":"1","y":100.0,"keywords":["k"],"properties":{"updated":"2020-01-01T00:00:00Z"},"z":2}`},
		{name: "a set", a: edits{"keywords": `["k","a"]`}, b: edits{"keywords": `["b"]`}, want: `{"id":"1","x":0,"y":100.0,"keywords":["a","b"],"properties":{"updated":"2020-01-01T00:00:00Z"}}`},
		{name: "the latest update", a: edits{"properties.updated": `"2026-01-01T01:00:00+01:00"`}, b: edits{"properties.updated": `"2026-01-01T00:00:00.5Z"`},
			want: `{"id":"1","x":0,"y":100.0,"keywords":["k"],"properties":{"updated":"2026-01-01T00:00:00.5Z"}}`},
		{name: "the id", a: edits{"id": `"2"`}, b: edits{"z": "2"}, want: `{"id":"2","x":0,"y":100.0,"keywords":["k"],"properties":{"updated":"2020-01-01T00:00:00Z"},"z":2}`},
		{name: "equal changes", a: edits{"x": "1"}, b: edits{"x": "1"}, want: `{"id":"1","x":1,"y":100.0,"keywords":["k"],"properties":{"updated":"2020-01-01T00:00:00Z"}}`},
		{name: "a conflict", a: edits{"x": "1"}, b: edits{"x": "2"}, failure: "conflict at x: a sets it to 1, b sets it to 2. Cure: write `merge: first` or `merge: last` at the step that joins the branches, or put one step after the other"},
		{name: "a list", a: edits{"y": "[1]"}, b: edits{"y": "[2]"}, failure: "conflict at y: a sets it to [1], b sets it to [2]. Cure: write `merge: first`"},
		{name: "removed and changed", a: edits{"x": ""}, b: edits{"x": "2"}, failure: "conflict at x: a removes it, b sets it to 2"},
		{name: "several conflicts", a: edits{"x": "1", "y": "1"}, b: edits{"x": "2", "y": "2"}, failure: "conflict at x: a sets it to 1, b sets it to 2; conflict at y: "},
		{name: "first", merge: "first", a: edits{"x": "1", "y": "1"}, b: edits{"x": "2", "z": "2"}, want: `{"id":"1","x":1,"y":1,"keywords":["k"],"properties":{"updated":"2020-01-01T00:00:00Z"},"z":2}`},
		{name: "last", merge: "last", a: edits{"x": "1", "y": "1"}, b: edits{"x": "2", "z": "2"}, want: `{"id":"1","x":2,"y":1,"keywords":["k"],"properties":{"updated":"2020-01-01T00:00:00Z"},"z":2}`},
		{name: "dropped by one", a: edits{"1": "drop"}, b: edits{"z": "2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			sink, out := branched(t, []string{from}, map[string]edits{"a": c.a, "b": c.b}, c.merge, "source", "a: source", "b: source", "sink: a b")
			if out.Err != nil {
				t.Fatal(out.Err)
			}
			if got := strings.Join(sink.Items(), "\n"); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if c.failure == "" && len(out.Failures) == 0 {
				return
			}
			if len(out.Failures) != 1 {
				t.Fatalf("failures: %v", out.Failures)
			}
			f := out.Failures[0]
			if f["step_id"] != "sink" || f["error_type"] != "conflict" || f["item_id"] != "1" || c.failure == "" || !strings.HasPrefix(f["message"].(string), c.failure) {
				t.Errorf("failure: %v", f)
			}
		})
	}
}

// Forks inside of branches, joins of several forks, and a step that is joined with what comes behind it.
func TestNestedJoins(t *testing.T) {
	does := map[string]edits{"a": {"a": "1", "x": `"a"`}, "b": {"b": "1", "x": `"b"`}, "c": {"c": "1"}, "d": {"d": "1"}, "e": {"e": "1"}, "f": {"old": ""}}
	for name, c := range map[string]struct {
		steps []string
		want  string
	}{
		"a fork inside of a branch":       {[]string{"source", "a: source", "b: a", "c: a", "d: b c", "e: source", "sink: d e"}, `{"id":"1","old":1,"a":1,"x":"b","b":1,"c":1,"d":1,"e":1}`},
		"a join of several forks":         {[]string{"source", "a: source", "b: a", "c: a", "e: source", "sink: b c e"}, `{"id":"1","old":1,"a":1,"x":"b","b":1,"c":1,"e":1}`},
		"the same, in another order":      {[]string{"source", "a: source", "b: a", "c: a", "e: source", "sink: e c b"}, `{"id":"1","old":1,"a":1,"x":"b","b":1,"c":1,"e":1}`},
		"a step and what comes behind it": {[]string{"source", "a: source", "b: a", "f: b", "sink: a f"}, `{"id":"1","a":1,"x":"b","b":1}`},
		"the source itself":               {[]string{"source", "a: source", "sink: source a"}, `{"id":"1","old":1,"a":1,"x":"a"}`},
		"two joins of the same branches":  {[]string{"source", "a: source", "c: source", "b: a c", "d: a c", "sink: b d"}, `{"id":"1","old":1,"a":1,"x":"b","b":1,"c":1,"d":1}`},
		"joins behind different branches": {[]string{"source", "a: source", "c: source", "e: source", "b: a c e", "d: c a", "f: e a c", "sink: b d f"}, `{"id":"1","a":1,"x":"b","b":1,"c":1,"d":1,"e":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			used := map[string]edits{}
			for _, s := range c.steps {
				if id, _, _ := strings.Cut(s, ":"); does[id] != nil {
					used[id] = does[id]
				}
			}
			sink, out := branched(t, []string{`{"id":"1","old":1}`}, used, "", c.steps...)
			if out.Err != nil || len(out.Failures) > 0 || len(sink.Items()) != 1 {
				t.Fatalf("%v, %v, %v", out.Err, out.Failures, sink.Items())
			}
			got, _ := item.Parse([]byte(sink.Items()[0]))
			want, _ := item.Parse([]byte(c.want))
			if !got.Equal(want) {
				t.Errorf("got %s, want %s", got.Bytes(), c.want)
			}
		})
	}
}

// Any graph of modifiers that touch different paths does what they do one after the other.
func TestDAGEqualsSequence(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		type step struct {
			does   edits
			inputs []int
		}
		var steps []step
		for i := range rapid.IntRange(1, 9).Draw(r, "modifiers") {
			does := edits{}
			for k := range rapid.IntRange(0, 3).Draw(r, "edits") {
				where := rapid.SampledFrom([]string{"p%d", "properties.p%d", "assets.a.p%d", "deep.d%d.x"}).Draw(r, "where")
				does[fmt.Sprintf(where, i*10+k)] = rapid.SampledFrom([]string{"1", `{"k":[1.0]}`, "[1]", `"t"`, "null"}).Draw(r, "value")
			}
			if rapid.Bool().Draw(r, "remove") {
				does[rapid.SampledFrom([]string{"old%d", "assets.old.o%d"}).Draw(r, "what")] = ""
			}
			for path, v := range does {
				if v == "" {
					delete(does, path)
					does[fmt.Sprintf(path, i)] = ""
				}
			}
			steps = append(steps, step{does, rapid.SliceOfNDistinct(rapid.IntRange(0, i), 1, min(i+1, 3), rapid.ID[int]).Draw(r, "inputs")})
		}
		base := `{"id":"1", "assets":{"a":{"href": "x"},"old":{`
		for i := range steps {
			base += fmt.Sprintf(`"o%d":%d,`, i, i)
		}
		base += `"o":0}},"properties":{}`
		for i := range steps {
			base += fmt.Sprintf(`,"old%d":[%d]`, i, i)
		}
		base += "}"
		names := []string{"source"}
		modules, graph := []stream.Module{streamtest.Source("x.source", base)}, []stream.Step{{ID: "source", Module: "x.source"}}
		chain := slices.Clone(graph)
		used := map[int]bool{}
		for i, s := range steps {
			id := fmt.Sprint("m", i)
			modules = append(modules, streamtest.Modifier("x."+id, true, changes(s.does)))
			var inputs []string
			for _, in := range s.inputs {
				inputs = append(inputs, names[in])
				used[in] = true
			}
			graph = append(graph, stream.Step{ID: id, Module: "x." + id, Inputs: inputs})
			chain = append(chain, stream.Step{ID: id, Module: "x." + id, Inputs: names[len(names)-1:]})
			names = append(names, id)
		}
		var open []string
		for i, name := range names {
			if !used[i] {
				open = append(open, name)
			}
		}
		run := func(steps []stream.Step, inputs ...string) string {
			sink := streamtest.Collect("x.sink")
			out, err := streamtest.RunIn(t.Context(), streamtest.Segment{Modules: append(slices.Clone(modules), sink.Module()), Checkpoints: t.TempDir(), Dir: t.TempDir(),
				Steps: append(slices.Clone(steps), stream.Step{ID: "sink", Module: "x.sink", Inputs: inputs})})
			if err != nil || out.Err != nil || len(out.Failures) > 0 || len(sink.Items()) != 1 {
				r.Fatal(err, out.Err, out.Failures, sink.Items())
			}
			return sink.Items()[0]
		}
		got, want := run(graph, open...), run(chain, names[len(names)-1])
		a, _ := item.Parse([]byte(got))
		b, _ := item.Parse([]byte(want))
		if !a.Equal(b) {
			r.Fatalf("the graph gives\n%s\nthe sequence\n%s", got, want)
		}
	})
}
