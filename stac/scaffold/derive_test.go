package scaffold

import (
	"testing"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/update"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/files"
	"github.com/stepwell/stepwell/stream/streamtest"
)

// Behind a join bbox and links fit the geometry and the id that another branch has set.
func TestDerivedAfterJoin(t *testing.T) {
	const from = `{"type":"Feature","id":"a","collection":"c","geometry":{"type":"Point","coordinates":[1,2]},"properties":{"datetime":"2020-01-01T00:00:00Z"}}`
	for name, c := range map[string]struct {
		from, box, self string
		updates         object
	}{
		"both":            {from, `[3,4,3,4]`, "https://x.org/c/b.json", object{"id": "b", "geometry": object{"type": "Point", "coordinates": []any{int64(3), int64(4)}}}},
		"the id only":     {from, `[1,2,1,2]`, "https://x.org/c/b.json", object{"id": "b"}},
		"neither":         {from, `[1,2,1,2]`, "https://x.org/c/a.json", object{"properties.x": int64(1)}},
		"a bbox as given": {from[:len(from)-1] + `,"bbox":[0,0,9,9]}`, `[0,0,9,9]`, "https://x.org/c/a.json", object{"geometry": object{"type": "Point", "coordinates": []any{int64(3), int64(4)}}}},
	} {
		sink := streamtest.Collect("sink")
		places := files.New(files.Options{})
		modules := append([]stream.Module{streamtest.Source("source", c.from), sink.Module()}, Modules(places)...)
		out := streamtest.Run(t.Context(), t, streamtest.Segment{Modules: append(modules, update.Modules(places)...), Steps: []stream.Step{
			{ID: "source", Module: "source"},
			{ID: "items", Module: "ScaffoldModule", Inputs: []string{"source"}, Config: object{"base_url": "https://x.org"}},
			{ID: "change", Module: "ModifyModule", Inputs: []string{"source"}, Config: object{"updates": c.updates}},
			{ID: "sink", Module: "sink", Inputs: []string{"items", "change"}},
		}})
		if out.Err != nil || len(out.Failures) > 0 || len(sink.Items()) != 1 {
			t.Fatal(name, out.Err, out.Failures)
		}
		v, err := item.Parse([]byte(sink.Items()[0]))
		if err != nil {
			t.Fatal(err)
		}
		selves := 0
		for _, l := range v.Get("links").Elements() {
			if textOf(l.Get("rel")) == "self" {
				if selves++; textOf(l.Get("href")) != c.self {
					t.Errorf("%s: self is %s", name, l.Bytes())
				}
			}
		}
		if got := compact(t, string(v.Get("bbox").Bytes())); got != c.box || selves != 1 {
			t.Errorf("%s: %s", name, v.Bytes())
		}
	}
}
