package transform

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/streamtest"
)

const clouds = `item_id,cloud,snow,x y
007,7e-06,0.0,1
7,50,,2
a.b/"c",100.0,1,3
a.b/"c",99,1,4
unused,1,1,1
,1,1,1
`

func TestStrategies(t *testing.T) {
	const it = `{"id":"7","properties":{"cloud":1.0,"nothing":null},"assets":{"ANG.txt":{"href":"h"},"B4":{}}}`
	for _, c := range []struct {
		name   string
		config object
		want   string
	}{
		{"merge", object{"strategy": "merge", "field_mapping": object{"properties.cloud": "cloud", "properties.new.n": "x y", "properties.snow": "snow"}},
			`{"id":"7","properties":{"cloud":50,"nothing":null,"new":{"n":2}},"assets":{"ANG.txt":{"href":"h"},"B4":{}}}`},
		{"update", object{"strategy": "update", "field_mapping": object{"properties.cloud": "cloud", "properties.new.n": "x y", "properties.nothing": "x y"}},
			`{"id":"7","properties":{"cloud":50,"nothing":2},"assets":{"ANG.txt":{"href":"h"},"B4":{}}}`},
		{"the default", object{"field_mapping": object{"properties.cloud": "cloud", "properties.new": "x y"}},
			`{"id":"7","properties":{"cloud":50,"nothing":null},"assets":{"ANG.txt":{"href":"h"},"B4":{}}}`},
		{"left", object{"strategy": "left", "field_mapping": object{"properties.cloud": "cloud", "properties.new": "x y", "properties.nothing": "cloud"}},
			`{"id":"7","properties":{"cloud":1.0,"nothing":50,"new":2},"assets":{"ANG.txt":{"href":"h"},"B4":{}}}`},
		{"wildcards", object{"strategy": "merge", "field_mapping": object{"assets.*.eo:cloud_cover": "cloud", `assets."ANG.txt".size`: "x y"}},
			`{"id":"7","properties":{"cloud":1.0,"nothing":null},"assets":{"ANG.txt":{"href":"h","size":2,"eo:cloud_cover":50},"B4":{"eo:cloud_cover":50}}}`},
		{"wildcards without a value make nothing", object{"strategy": "merge", "field_mapping": object{"assets.*.a.b": "snow", "assets.*.deep.x": "'{asset_key}' == 'B4' && cloud || `null`"}},
			`{"id":"7","properties":{"cloud":1.0,"nothing":null},"assets":{"ANG.txt":{"href":"h"},"B4":{"deep":{"x":50}}}}`},
		{"objects", object{"strategy": "merge", "field_mapping": object{"properties": "{cloud: to_string(cloud), more: {n: `1.0`}}"}},
			`{"id":"7","properties":{"cloud":"50","nothing":null,"more":{"n":1}},"assets":{"ANG.txt":{"href":"h"},"B4":{}}}`},
	} {
		rig := streamtest.New(t)
		c.config["input_file"], c.config["input_key"] = put(t, rig, "clouds.csv", clouds), "item_id"
		m := join(t, rig, c.config)
		got, err := modify(t, m, it)
		if err != nil || got != c.want && !sameMembers(t, got, c.want) {
			t.Errorf("%s:\n got %s, %v\nwant %s", c.name, got, err, c.want)
		}
		if again, err := modify(t, m, got); err != nil || again != got {
			t.Errorf("%s: a second run gives %s, %v", c.name, again, err)
		}
	}
}

func sameMembers(t *testing.T, a, b string) bool {
	t.Helper()
	x, y := streamtest.Item(t, a), streamtest.Item(t, b)
	x.Merge(y.Value)
	y.Merge(streamtest.Item(t, a).Value)
	return len(a) == len(b) && string(x.Bytes()) == a && string(y.Bytes()) == b
}

func TestJoinKeysAndCounts(t *testing.T) {
	rig := streamtest.New(t)
	m := join(t, rig, object{"source_file": put(t, rig, "clouds.csv", clouds), "input_join_key": "item_id", "field_mapping": object{"properties.cloud": "cloud", "properties.none": "nothing here!"}})
	for _, c := range []struct{ in, want string }{
		{`{"id":"007"}`, `{"id":"007","properties":{"cloud":7e-06}}`},
		{`{"id":7}`, `{"id":7,"properties":{"cloud":50}}`},
		{`{"id":"a.b/\"c\""}`, `{"id":"a.b/\"c\"","properties":{"cloud":99}}`},
		{`{"id":"other", "x": 1.0}`, `{"id":"other", "x": 1.0}`},
		{`{"no":"id"}`, `{"no":"id"}`},
	} {
		if got, err := modify(t, m, c.in); err != nil || got != c.want {
			t.Errorf("%s: %s, %v, want %s", c.in, got, err, c.want)
		}
	}
	if got, want := outputs(t, m), `{"duplicate_keys":1,"matched":3,"rows":6,"rows_failed":1,"rows_unmatched":1,"unmatched":2,"without_value":["properties.none"]}`; got != want {
		t.Errorf("outputs %s, want %s", got, want)
	}
	wantFailures(t, rig, "clouds.csv:7 unknown: the row has no item_id")
	if lines := strings.Join(rig.Lines(), "\n"); !strings.Contains(lines, "no row had a value for properties.none") || !strings.Contains(lines, "nothing here!") {
		t.Errorf("log: %s", lines)
	}
}

func TestHandleMissing(t *testing.T) {
	for _, c := range []struct {
		how            string
		passes, record bool
	}{{"ignore", true, false}, {"warn", true, true}, {"error", false, false}, {"fail", false, false}} {
		rig := streamtest.New(t)
		m := join(t, rig, object{"input_file": put(t, rig, "t.json", `{"a":{"x":1}}`), "field_mapping": object{"properties.x": "x"}, "handle_missing": c.how})
		got, err := modify(t, m, `{"id":"b"}`)
		if (err == nil) != c.passes || c.passes && got != `{"id":"b"}` || len(rig.Failures()) == 1 != c.record {
			t.Errorf("%s: %s, %v, %v", c.how, got, err, rig.Failures())
		}
		if !c.passes && (stepwell.CodeOf(err) != stepwell.CodeNotFound || !strings.Contains(err.Error(), "no row for b")) {
			t.Errorf("%s: %v", c.how, err)
		}
	}
}

func TestTablesOfAllKinds(t *testing.T) {
	for name, text := range map[string]string{
		"keyed.json":    `{"a":{"x":1,"id":5},"b":{"x":2}}`,
		"list.json":     `[{"id":"a","x":1},{"id":"b","x":2}]`,
		"rows.ndjson":   "{\"id\":\"a\",\"x\":1}\n{\"id\":\"b\",\"x\":2}\n",
		"points.csv":    "id,x\na,1\nb,2\n",
		"places.tsv":    "id\tx\na\t1\nb\t2\n",
		"where.geojson": `{"type":"FeatureCollection","features":[{"type":"Feature","id":"a","geometry":null,"properties":{"x":1},"x":1}]}`,
	} {
		rig := streamtest.New(t)
		m := join(t, rig, object{"input_file": put(t, rig, name, text), "strategy": "merge", "field_mapping": object{"properties.x": "x"}})
		if got, err := modify(t, m, `{"id":"a"}`); err != nil || got != `{"id":"a","properties":{"x":1}}` {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

func TestTableErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want, hint string }{
		{"t.csv", "item_id,x\na,1\n", "no row of t.csv has the key id", "did you mean input_join_key: item_id?"},
		{"t.csv", "id,x\na," + strings.Repeat("long ", 200) + "\n", "max_table_bytes (1000)", "raise"},
		{"t.json", `{"id":`, "t.json", ""},
	} {
		rig := streamtest.New(t)
		config := object{"input_file": put(t, rig, c.name, c.text), "field_mapping": object{"x": "x"}, "max_table_bytes": 1000}
		_, err := rig.Open(module(), config)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(stepwell.HintOf(err), c.hint) {
			t.Errorf("%s: %v (%s), want %q (%s)", c.text[:10], err, stepwell.HintOf(err), c.want, c.hint)
		}
		// What may be a source's file is loaded with the first item, and ends the segment.
		config["source_file"] = config["input_file"]
		delete(config, "input_file")
		m := join(t, rig, config)
		for range 2 {
			_, err = modify(t, m, `{"id":"a"}`)
			var failed *stream.Error
			if !errors.As(err, &failed) || failed.Type != stream.ModuleException || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", c.text[:10], err, c.want)
			}
		}
	}
}

func TestItemsThatDoNotFit(t *testing.T) {
	rig := streamtest.New(t)
	m := join(t, rig, object{"input_file": put(t, rig, "t.csv", "id,x\na,much\n"), "mappings": []any{object{"source_field": "x", "target_field": "properties.x", "type": "int"}}, "strategy": "merge"})
	it := streamtest.Item(t, `{"id":"a"}`)
	_, err := m.Modify(t.Context(), it)
	failed, ok := errors.AsType[*stream.Error](err)
	if want := (stream.Context{Field: "properties.x"}); !ok || failed.Context != want || !strings.Contains(err.Error(), `"much" is not a number`) {
		t.Errorf("%#v", err)
	}
}

// Two goroutines, so that -race can tell.
func TestJoinInParallel(t *testing.T) {
	rig := streamtest.New(t)
	m := join(t, rig, object{"source_file": put(t, rig, "t.csv", "id,x\na,1\nb,2\n"), "field_mapping": object{"properties.x": "x", "assets.*.t": "to_string('{asset_key}')", "properties.y": "x || `1`"}})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range 200 {
				if got, err := modify(t, m, `{"id":"b","assets":{"k":{}}}`); err != nil || got != `{"id":"b","assets":{"k":{"t":"k"}},"properties":{"x":2,"y":2}}` {
					t.Error(got, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func FuzzMapping(f *testing.F) {
	f.Add("a.b[0]", "properties.x", `{"a":{"b":[1]}}`)
	f.Add("{a: datetime(t, '%Y'), b: geometry(g)}", "assets.*.x", `{"t":"2020","g":"POINT(1 2)"}`)
	f.Add("null_if(a, 'x')", "geometry", `{"a":[1,2]}`)
	f.Fuzz(func(t *testing.T, source, target, row string) {
		if !strings.HasPrefix(row, "{") {
			return
		}
		r := stream.Lazy([]byte(row), stream.Place{})
		if r.Parse() != nil {
			return
		}
		c := config{SourceFile: "f", FieldMapping: object{target: source}, Timezone: "UTC"}
		if problems := c.check(stream.Config{Values: object{"source_file": "f", "field_mapping": c.FieldMapping}}); len(problems) > 0 {
			return
		}
		it := streamtest.Item(t, `{"id":"a","collection":"c","properties":{},"assets":{"k":{}}}`)
		if err := c.mappings[0].apply(it.Value, r.Value, "merge"); err != nil {
			return
		}
		streamtest.Item(t, string(it.Bytes()))
	})
}
