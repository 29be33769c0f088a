package transform

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/transform/convert"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/streamtest"
)

// samples is the folder of stac-manager's samples, where the rig's pipeline finds it as `samples`.
func samples(t testing.TB, rig *streamtest.Rig) string {
	t.Helper()
	dir := os.Getenv("STEPWELL_SHARED_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	dir, err := filepath.Abs(filepath.Join(dir, "stac-manager-samples"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skip("left out: the samples of stac-manager, which are not here")
	}
	if err := os.Symlink(dir, filepath.Join(rig.Env.Dir, "samples")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// sampleConfig is a step's config as a workflow of the samples has it.
func sampleConfig(t testing.TB, path, module string) object {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := convert.Document(raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range doc.Get("steps").Elements() {
		if name, _ := step.Get("module").Str(); name == module {
			config, err := step.Get("config").Any()
			if err != nil {
				t.Fatal(err)
			}
			return config.(object)
		}
	}
	t.Fatalf("%s has no %s", path, module)
	return nil
}

func sampleItems(t testing.TB, dir string) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "sentinel-2-l2a-api", "sample-data", "items.json"))
	if err != nil {
		t.Fatal(err)
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		t.Fatal(err)
	}
	out := make([]string, len(items))
	for i := range items {
		out[i] = string(items[i])
	}
	return out
}

// P13: the sidecar tables of the samples fit all 20 items, and a second run changes nothing.
func TestSampleJoins(t *testing.T) {
	for name, c := range map[string]struct {
		config object // nil: word for word as in the workflow
		target string
	}{
		"as it stands": {nil, "cloud_cover_extra"},
		"csv": {object{"input_file": "samples/sentinel-2-l2a-api/input-data/cloud-cover.csv", "input_join_key": "item_id", "item_key": "id", "strategy": "merge",
			"field_mapping": object{"properties.cloud_cover_extra": "cloud_cover", "properties.snow_cover_extra": "snow_cover"}}, "cloud_cover_extra"},
		"update": {object{"input_file": "samples/sentinel-2-l2a-api/input-data/cloud-cover.csv", "input_key": "item_id",
			"field_mapping": object{"properties.eo:cloud_cover": "cloud_cover", "properties.nowhere": "snow_cover"}}, "eo:cloud_cover"},
	} {
		rig := streamtest.New(t)
		dir := samples(t, rig)
		config := c.config
		if config == nil {
			config = sampleConfig(t, filepath.Join(dir, "sentinel-2-l2a-api", "workflows", "03-extension-pipeline.yaml"), "TransformModule")
		}
		config["handle_missing"] = "error"
		m := join(t, rig, config)
		raw, err := os.ReadFile(filepath.Join(dir, "sentinel-2-l2a-api", "input-data", "cloud-cover.json"))
		if err != nil {
			t.Fatal(err)
		}
		table, err := item.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		scientific := false
		for _, text := range sampleItems(t, dir) {
			got, err := modify(t, m, text)
			if err != nil {
				t.Fatal(name, err)
			}
			out := streamtest.Item(t, got)
			want := table.Get(out.ID())
			v := out.Get("properties").Get(c.target)
			if a, b := string(v.Bytes()), string(want.Get("cloud_cover").Bytes()); a != b {
				t.Errorf("%s: %s is %s, not %s", name, out.ID(), a, b)
			}
			scientific = scientific || strings.Contains(got, `"snow_cover_extra":7e-06`)
			if name == "update" && out.Get("properties").Get("nowhere") != nil {
				t.Errorf("%s made what was not there", name)
			}
			if again, err := modify(t, m, got); err != nil || again != got {
				t.Errorf("%s: a second run changed %s, %v", name, out.ID(), err)
			}
		}
		if name != "update" && !scientific {
			t.Errorf("%s: 7e-06 was not kept as it is written", name)
		}
		if got := outputs(t, m); !strings.Contains(got, `"matched":40,"rows":20,"rows_failed":0,"rows_unmatched":0,"unmatched":0`) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestSampleWithTheWrongKey(t *testing.T) {
	rig := streamtest.New(t)
	samples(t, rig)
	_, err := rig.Open(module(), object{"input_file": "samples/HLSS30_2.0-api/sidecar-data/cloud-cover.csv", "field_mapping": object{"properties.x": "cloud_cover"}})
	if err == nil || !strings.Contains(stepwell.HintOf(err), "input_join_key: item_id") {
		t.Errorf("%v (%s)", err, stepwell.HintOf(err))
	}
}

func BenchmarkJoin(b *testing.B) {
	rig := streamtest.New(b)
	var table strings.Builder
	table.WriteString("id,cloud\n")
	for i := range 1000 {
		fmt.Fprintf(&table, "s%d,%d\n", i, i%100)
	}
	m := join(b, rig, object{"input_file": put(b, rig, "t.csv", table.String()), "strategy": "merge", "field_mapping": object{"properties.eo:cloud_cover": "cloud"}})
	it := streamtest.Item(b, `{"type":"Feature","id":"s500","properties":{"datetime":"2020-01-01T00:00:00Z"},"assets":{"a":{"href":"x"}}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Modify(b.Context(), it.Clone()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRows(b *testing.B) {
	rig := streamtest.New(b)
	var table strings.Builder
	table.WriteString("id,taken,wkt,cloud\n")
	for i := range 10_000 {
		fmt.Fprintf(&table, "s%d,2023-11-17T16:00:00Z,\"POLYGON ((-115.997313 48.997642, -115.995973 49.064289, -116.065205 49.064871, -116.066453 48.998222, -115.997313 48.997642))\",%d\n", i, i%100)
	}
	config := object{"source_file": put(b, rig, "t.csv", table.String()), "field_mapping": object{"id": "id", "datetime": "taken", "geometry": "wkt", "properties.eo:cloud_cover": "cloud"}}
	b.ReportAllocs()
	for b.Loop() {
		c, err := rig.Open(module(), config)
		if err != nil {
			b.Fatal(err)
		}
		o := &counter{}
		if err := c.(stream.Source).Read(b.Context(), nil, o); err != nil || o.items != 10_000 {
			b.Fatal(o.items, err)
		}
	}
	b.ReportMetric(float64(b.N)*10_000/b.Elapsed().Seconds(), "rows/s")
}

type counter struct{ items int }

func (c *counter) Item(*stream.Item) error     { c.items++; return nil }
func (c *counter) Mark(any) error              { return nil }
func (c *counter) Fail(f stream.Failure) error { return f.Err }
func (c *counter) Expect(int64)                {}
