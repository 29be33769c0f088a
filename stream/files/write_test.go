package files

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/streamtest"
)

func textValue(s string) *item.Value { return item.OfText(s) }

func batch(t testing.TB, texts ...string) []*stream.Item {
	t.Helper()
	var items []*stream.Item
	for _, s := range texts {
		items = append(items, streamtest.Item(t, s))
	}
	return items
}

func openSink(t testing.TB, r *streamtest.Rig, m stream.Module, config map[string]any) stream.Sink {
	t.Helper()
	c, err := r.Open(m, config)
	if err != nil {
		t.Fatal(err)
	}
	return c.(stream.Sink)
}

func write(t testing.TB, s stream.Sink, texts ...string) {
	t.Helper()
	if err := s.Write(context.Background(), batch(t, texts...)); err != nil {
		t.Fatal(err)
	}
}

func commit(t testing.TB, s stream.Sink, want int64) json.RawMessage {
	t.Helper()
	n, state, err := s.Commit(context.Background())
	if err != nil || n != want {
		t.Fatal(n, err)
	}
	raw, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func closeSink(t testing.TB, s stream.Sink) (json.RawMessage, string) {
	t.Helper()
	state, outputs, err := s.Close(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(outputs)
	if err != nil {
		t.Fatal(err)
	}
	return raw, string(out)
}

func rowsOf(t testing.TB, path string) []string {
	t.Helper()
	rows := []string{}
	err := New(Options{}).Each(context.Background(), path, Shape{}, nil, func(r Row) error {
		if r.Err != nil {
			return r.Err
		}
		rows = append(rows, string(r.Text))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func names(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

var sinkFiles = []string{"a.ndjson", "a.ndjson.gz", "a.ndjson.zst", "a.json", "a.json.gz", "a.geojson", "a.csv", "a.csv.zst", "a.tsv", "a.parquet", strings.Repeat("n", 240) + ".ndjson"}

func row(n int) string { return fmt.Sprintf(`{"id":"i%d","n":%d}`, n, n) }

func rowRange(from, to int) []string {
	rows := []string{}
	for i := from; i < to; i++ {
		rows = append(rows, row(i))
	}
	return rows
}

// TestWriteGoesOn writes, commits, writes more, dies, goes on from the commit, dies again, ends, and adds in a
// later run: at each end, the file has exactly the items that were committed and those after.
func TestWriteGoesOn(t *testing.T) {
	for _, name := range sinkFiles {
		t.Run(name[max(0, len(name)-10):], func(t *testing.T) {
			r := streamtest.New(t)
			_, m := modules(t)
			config := map[string]any{"path": "out/" + name}
			path := filepath.Join(r.Env.Dir, "out", name)
			s := openSink(t, r, m, config)
			write(t, s, rowRange(0, 1000)...)
			first := commit(t, s, 1000)
			write(t, s, rowRange(5000, 6000)...)
			commit(t, s, 2000) // which was not noted any more
			s.Abandon()
			if _, err := os.Stat(path); err == nil {
				t.Fatal("the file is there before it is complete")
			}
			r.Env.State = first
			s = openSink(t, r, m, config)
			write(t, s, rowRange(1000, 1500)...)
			second := commit(t, s, 500)
			write(t, s, row(7000))
			s.Abandon()
			r.Env.State = second
			s = openSink(t, r, m, config)
			commit(t, s, 0)
			_, outputs := closeSink(t, s)
			if diff := cmp.Diff(rowRange(0, 1500), rowsOf(t, path)); diff != "" {
				t.Fatal(diff)
			}
			if info, _ := os.Stat(path); !strings.Contains(outputs, fmt.Sprintf(`"bytes":%d,"items":1500`, info.Size())) {
				t.Error(outputs)
			}
			if got := names(t, filepath.Dir(path)); !slices.Equal(got, []string{name}) {
				t.Error("left behind:", got)
			}
			// A crash before the state of Close was kept: the items behind the commit come again.
			r.Env.State = second
			s = openSink(t, r, m, config)
			write(t, s, row(1500))
			closed, _ := closeSink(t, s)
			if diff := cmp.Diff(rowRange(0, 1501), rowsOf(t, path)); diff != "" {
				t.Fatal(diff)
			}
			// A later run without anything new, then one that adds, and dies once.
			r.Env.State = closed
			s = openSink(t, r, m, config)
			closed, _ = closeSink(t, s)
			r.Env.State = closed
			s = openSink(t, r, m, config)
			write(t, s, rowRange(1501, 1600)...)
			s.Abandon()
			s = openSink(t, r, m, config)
			write(t, s, rowRange(1501, 1600)...)
			if diff := cmp.Diff(rowRange(0, 1501), rowsOf(t, path)); diff != "" {
				t.Fatal("the file changes before it is complete:", diff)
			}
			closeSink(t, s)
			if diff := cmp.Diff(rowRange(0, 1600), rowsOf(t, path)); diff != "" {
				t.Fatal(diff)
			}
			if got := names(t, filepath.Dir(path)); !slices.Equal(got, []string{name}) {
				t.Error("left behind:", got)
			}
		})
	}
}

// TestWriteTorn has a spool that a crash has left longer than the commit, with half a line.
func TestWriteTorn(t *testing.T) {
	r := streamtest.New(t)
	_, m := modules(t)
	config := map[string]any{"path": "a.ndjson"}
	s := openSink(t, r, m, config)
	write(t, s, row(1))
	state := commit(t, s, 1)
	s.Abandon()
	spools, err := filepath.Glob(filepath.Join(r.Env.Dir, ".a.ndjson.*.part"))
	if err != nil || len(spools) != 1 {
		t.Fatal(spools, err)
	}
	put(t, r.Env.Dir, filepath.Base(spools[0]), row(1)+"\n{\"id\":")
	r.Env.State = state
	s = openSink(t, r, m, config)
	write(t, s, row(2))
	closed, _ := closeSink(t, s)
	path := filepath.Join(r.Env.Dir, "a.ndjson")
	if got, err := os.ReadFile(path); string(got) != row(1)+"\n"+row(2)+"\n" || err != nil {
		t.Errorf("%s %v", got, err)
	}
	// Somebody has changed the file, or taken it away: the state means nothing.
	put(t, r.Env.Dir, "a.ndjson", "{}\n")
	for range 2 {
		r.Env.State = closed
		if _, err := r.Open(m, config); !isGone(err) {
			t.Error(err)
		}
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	r.Env.State = state
	if _, err := r.Open(m, config); !isGone(err) {
		t.Error(err)
	}
	if got := names(t, r.Env.Dir); len(got) != 0 {
		t.Error("left behind:", got)
	}
}

func isGone(err error) bool {
	return err != nil && strings.Contains(err.Error(), stream.ErrStateGone.Error())
}

func TestWriteText(t *testing.T) {
	items := []string{`{"id":"a","collection":"x/y","n":1.50,"t":"q\"\n, ","o":{"k":[1]},"z":null,"e":""}`, "{\n\"id\": \"b\",\"collection\":\"x/y\", \"n\":1e21}"}
	for name, tt := range map[string]struct {
		config map[string]any
		want   string
	}{
		"a.ndjson":       {nil, items[0] + "\n" + `{"id":"b","collection":"x/y","n":1e21}` + "\n"},
		"b.json":         {nil, "[\n" + items[0] + ",\n" + items[1] + "\n]\n"},
		"c.geojson":      {nil, `{"type":"FeatureCollection","features":[` + "\n" + items[0] + ",\n" + items[1] + "\n]}\n"},
		"d.csv":          {nil, "id,collection,n,t,o,z,e\na,x/y,1.50,\"q\"\"\n, \",\"{\"\"k\"\":[1]}\",,\"\"\nb,x/y,1e21,,,,\n"},
		"e.csv":          {map[string]any{"columns": []any{"n", "o.k", "id"}, "delimiter": ";"}, "n;o.k;id\n1.50;[1];a\n1e21;;b\n"},
		"f.tsv":          {map[string]any{"columns": []any{"z"}}, "z\n\"\"\n\"\"\n"},
		"g":              {map[string]any{"format": "ndjson"}, items[0] + "\n" + `{"id":"b","collection":"x/y","n":1e21}` + "\n"},
		"x%2Fy/i.ndjson": {map[string]any{"path": "{collection_id}/i.ndjson"}, items[0] + "\n" + `{"id":"b","collection":"x/y","n":1e21}` + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			r := streamtest.New(t)
			_, m := modules(t)
			config := map[string]any{"path": name}
			for k, v := range tt.config {
				config[k] = v
			}
			if got := m.Check(config); got != nil {
				t.Fatal(got)
			}
			s := openSink(t, r, m, config)
			write(t, s, items...)
			closeSink(t, s)
			got, err := os.ReadFile(filepath.Join(r.Env.Dir, name))
			if diff := cmp.Diff(tt.want, string(got)); diff != "" || err != nil || len(r.Refused()) > 0 {
				t.Error(diff, err, r.Failures())
			}
		})
	}
}

func TestWriteNothing(t *testing.T) {
	for name, want := range map[string]string{"a.ndjson": "", "a.json": "[]\n", "a.geojson": `{"type":"FeatureCollection","features":[]}` + "\n", "a.csv": "", "a.ndjson.gz": ""} {
		r := streamtest.New(t)
		_, m := modules(t)
		config := map[string]any{"path": name}
		state, _ := closeSink(t, openSink(t, r, m, config))
		got, err := os.ReadFile(filepath.Join(r.Env.Dir, name))
		if string(got) != want || err != nil {
			t.Errorf("%s: %q %v", name, got, err)
		}
		r.Env.State = state
		s := openSink(t, r, m, config)
		write(t, s, row(1))
		closeSink(t, s)
		if diff := cmp.Diff(rowRange(1, 2), rowsOf(t, filepath.Join(r.Env.Dir, name))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	r := streamtest.New(t)
	_, m := modules(t)
	config := map[string]any{"path": "a.parquet"}
	state, outputs := closeSink(t, openSink(t, r, m, config))
	if got := names(t, r.Env.Dir); len(got) != 0 || outputs != `{"files":[],"items":0,"items_not_checked":0}` || len(r.Lines()) != 1 {
		t.Error(got, outputs, r.Lines())
	}
	r.Env.State = state
	s := openSink(t, r, m, config)
	write(t, s, row(1))
	closeSink(t, s)
	if diff := cmp.Diff(rowRange(1, 2), rowsOf(t, filepath.Join(r.Env.Dir, "a.parquet"))); diff != "" {
		t.Error(diff)
	}
}

func TestWriteRefuses(t *testing.T) {
	r := streamtest.New(t)
	_, m := modules(t)
	s := openSink(t, r, m, map[string]any{"path": "a.csv"})
	write(t, s, `{"a":1}`, `{"a":2,"b":3}`, `{"a":3}`)
	commit(t, s, 3)
	closeSink(t, s)
	if f := r.Failures(); len(f) != 1 || !strings.Contains(f[0].Err.Error(), `"b"`) || stepwell.HintOf(f[0].Err) == "" {
		t.Error(f)
	}
	if got := rowsOf(t, filepath.Join(r.Env.Dir, "a.csv")); !slices.Equal(got, []string{`{"a":1}`, `{"a":3}`}) {
		t.Error(got)
	}
	s = openSink(t, r, m, map[string]any{"path": "b.csv", "extra": "drop"})
	write(t, s, `{"a":1}`, `{"a":2,"b":3}`)
	closeSink(t, s)
	if got := rowsOf(t, filepath.Join(r.Env.Dir, "b.csv")); !slices.Equal(got, []string{`{"a":1}`, `{"a":2}`}) || len(r.Failures()) != 1 {
		t.Error(got, r.Failures())
	}
	s = openSink(t, r, m, map[string]any{"path": "{collection_id}.ndjson"})
	write(t, s, `{"id":"x"}`, `{"id":"x","collection":".."}`, `{"id":"y","collection":"%2E."}`)
	closeSink(t, s)
	if f := r.Failures(); len(f) != 2 || f[1].Item != "x" {
		t.Error(f)
	}
	if got := names(t, r.Env.Dir); !slices.Equal(got, []string{"%252E..ndjson", "%2E..ndjson", "a.csv", "b.csv"}) {
		t.Error(got)
	}
}

func TestWriteOnce(t *testing.T) {
	r := streamtest.New(t)
	_, m := modules(t)
	s := openSink(t, r, m, map[string]any{"path": "a.json"})
	if _, err := r.Open(m, map[string]any{"path": "a.json"}); stepwell.CodeOf(err) != stepwell.CodeConflict || stepwell.HintOf(err) == "" {
		t.Error("a second writer:", err)
	}
	closeSink(t, s)
	if _, err := r.Open(m, map[string]any{"path": "a.json", "overwrite": false}); stepwell.CodeOf(err) != stepwell.CodeConflict {
		t.Error("a file that is there:", err)
	}
	s = openSink(t, r, m, map[string]any{"path": "a.json"})
	s.Abandon()
	if got := names(t, r.Env.Dir); !slices.Equal(got, []string{"a.json"}) {
		t.Error("left behind:", got)
	}
	put(t, r.Env.Dir, ".a.json.0123456789ab.part", "from a run that died")
	put(t, r.Env.Dir, ".a.json.lock", "")
	put(t, r.Env.Dir, ".a.json.mine", "not ours")
	closeSink(t, openSink(t, r, m, map[string]any{"path": "a.json"}))
	if got := names(t, r.Env.Dir); !slices.Equal(got, []string{".a.json.mine", "a.json"}) {
		t.Error("left behind:", got)
	}
}

func TestWriteS3(t *testing.T) {
	p, _ := bucket(t)
	m := Modules(ModuleOptions{Places: p})[1]
	for _, name := range []string{"s3://data/out/a.ndjson.gz", "s3://data/out/b.parquet"} {
		r := streamtest.New(t)
		config := map[string]any{"path": name}
		s := openSink(t, r, m, config)
		write(t, s, rowRange(0, 100)...)
		state := commit(t, s, 100)
		write(t, s, row(7000))
		s.Abandon()
		for n, last := range []int{200, 201} { // the second: a crash before the state was kept
			r.Env.State = state
			s = openSink(t, r, m, config)
			write(t, s, rowRange(100, last)...)
			closed, _ := closeSink(t, s)
			var rows []string
			err := p.Each(t.Context(), name, Shape{}, nil, func(r Row) error { rows = append(rows, string(r.Text)); return nil })
			if diff := cmp.Diff(rowRange(0, last), rows); diff != "" || err != nil {
				t.Errorf("%s %d: %v %s", name, n, err, diff)
			}
			if got := names(t, r.Env.Data); !slices.Equal(got, []string{journalName}) {
				t.Error("left behind:", got)
			}
			if n == 1 {
				r.Env.State = closed
				s = openSink(t, r, m, config)
				write(t, s, row(201))
				closeSink(t, s)
			}
		}
	}
	r := streamtest.New(t)
	if _, err := r.Open(m, map[string]any{"path": "s3://none/a.json"}); stepwell.CodeOf(err) != stepwell.CodeNotFound {
		t.Error(err)
	}
	if _, err := r.Open(m, map[string]any{"path": "s3://data/out/b.parquet", "overwrite": false}); stepwell.CodeOf(err) != stepwell.CodeConflict {
		t.Error(err)
	}
}

func TestWriteConfig(t *testing.T) {
	_, m := modules(t)
	for want, config := range map[string]map[string]any{
		"does not tell the format": {"path": "out/a.txt"},
		"names no file":            {"path": "out/"},
		"only {collection_id}":     {"path": "out/{id}.json"},
		"URLs are not written":     {"path": "https://example.org/a.json"},
		"gs://":                    {"path": "gs://b/k.json"},
		"columns belongs to CSV":   {"path": "a.json", "columns": []any{"a"}},
		"is there twice":           {"path": "a.csv", "columns": []any{"a", "a"}},
		"compressed inside":        {"path": "a.parquet.gz"},
		"names no bucket":          {"path": "s3:///a.json"},
		"same character":           {"path": "a.csv", "delimiter": `"`},
	} {
		if got := m.Check(config); len(got) != 1 || !strings.Contains(got[0].Error(), want) {
			t.Errorf("%s: %v", want, got)
		}
	}
	r := streamtest.New(t)
	if err := os.Mkdir(filepath.Join(r.Env.Dir, "d.json"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Open(m, map[string]any{"path": "d.json"}); stepwell.CodeOf(err) != stepwell.CodeInvalid {
		t.Error(err)
	}
}

func BenchmarkRead(b *testing.B) {
	text := `{"id":"` + strings.Repeat("x", 980) + `"}`
	for _, name := range []string{"a.ndjson", "a.json"} {
		b.Run(name, func(b *testing.B) {
			const n = 50_000
			line, head, tail := text+"\n", "", ""
			if name == "a.json" {
				line, head, tail = text+",\n", "[", "{}]"
			}
			path := put(b, b.TempDir(), name, head+strings.Repeat(line, n)+tail)
			m, _ := modules(b)
			r := streamtest.New(b)
			b.SetBytes(int64(n * len(line)))
			b.ReportAllocs()
			for b.Loop() {
				c, err := r.Open(m, map[string]any{"path": path})
				if err != nil {
					b.Fatal(err)
				}
				if err := c.(stream.Source).Read(context.Background(), nil, drop{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "items/s")
		})
	}
}

// drop takes items and forgets them.
type drop struct{}

func (drop) Item(*stream.Item) error   { return nil }
func (drop) Mark(any) error            { return nil }
func (drop) Fail(stream.Failure) error { return nil }
func (drop) Expect(int64)              {}

func BenchmarkWrite(b *testing.B) {
	const n = 10_000
	items := make([]*stream.Item, n)
	for i := range items {
		items[i] = streamtest.Item(b, `{"id":"`+strings.Repeat("x", 980)+`"}`)
	}
	for _, name := range []string{"a.ndjson", "a.ndjson.zst", "a.ndjson.gz"} {
		b.Run(name, func(b *testing.B) {
			_, m := modules(b)
			r := streamtest.New(b)
			b.SetBytes(n * 990)
			b.ReportAllocs()
			for b.Loop() {
				s := openSink(b, r, m, map[string]any{"path": name})
				for part := range slices.Chunk(items, 256) {
					if err := s.Write(context.Background(), part); err != nil {
						b.Fatal(err)
					}
				}
				closeSink(b, s)
			}
			b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "items/s")
		})
	}
}
