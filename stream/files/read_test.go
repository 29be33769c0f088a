package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/streamtest"
)

func modules(t testing.TB) (read, write stream.Module) {
	t.Helper()
	m := Modules(ModuleOptions{Places: New(Options{})})
	return m[0], m[1]
}

func TestRead(t *testing.T) {
	r := streamtest.New(t)
	m, _ := modules(t)
	put(t, r.Env.Dir, "in/a.ndjson", "{\"id\":1}\nbad\n{\"id\":2}\n")
	put(t, r.Env.Dir, "in/b.json", `{"x":{"v":1},"y":{"id":"z"}}`)
	put(t, r.Env.Dir, "in/c.ndjson.gz", gzipped(t, "{\"id\":3}\n")[:20])
	put(t, r.Env.Dir, "d.csv", "no;name\n007;a\n8;b\n")
	items, cursors, err := r.Read(m, map[string]any{"path": []any{"in/*", "in/a.ndjson"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`{"id":1}`, `{"id":2}`, `{"v":1,"id":"x"}`, `{"id":"z"}`}, items); diff != "" {
		t.Error(diff)
	}
	failures := r.Failures()
	if len(failures) != 2 || failures[0].Context.Line != 2 || failures[0].Context.File != "in/a.ndjson" || failures[1].Context.File != "in/c.ndjson.gz" {
		t.Errorf("%+v", failures)
	}
	if len(cursors) != 3 {
		t.Errorf("%s", cursors)
	}
	items, _, err = r.Read(m, map[string]any{"path": "d.csv", "delimiter": ";", "id": "no", "text_columns": []any{"no"}})
	if diff := cmp.Diff([]string{`{"no":"007","name":"a","id":"007"}`, `{"no":"8","name":"b","id":"8"}`}, items); diff != "" || err != nil {
		t.Error(diff, err)
	}
	items, _, err = r.Read(m, map[string]any{"path": "d.csv", "delimiter": ";", "id": "{{ item.name }}-{{ line }}", "max_items": 1})
	if diff := cmp.Diff([]string{`{"no":"007","name":"a","id":"a-2"}`}, items); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// TestReadGoesOn begins at every mark of a run over several files.
func TestReadGoesOn(t *testing.T) {
	r := streamtest.New(t)
	m, _ := modules(t)
	var all []string
	for f, name := range []string{"a.ndjson", "b.ndjson.zst", "c.csv", "d.json"} {
		var text strings.Builder
		text.WriteString(map[string]string{"c.csv": "n\n", "d.json": "["}[name])
		for i := range 600 {
			n := f*1000 + i
			row := fmt.Sprintf(`{"n":%d}`, n)
			all = append(all, row)
			switch name {
			case "c.csv":
				row = fmt.Sprint(n)
			case "d.json":
				row = ","[:min(i, 1)] + row
			}
			text.WriteString(row + "\n")
		}
		text.WriteString(map[string]string{"d.json": "]"}[name])
		content := text.String()
		if strings.HasSuffix(name, ".zst") {
			content = zstded(t, content)
		}
		put(t, r.Env.Dir, "in/"+name, content)
	}
	_, w := modules(t)
	s := openSink(t, r, w, map[string]any{"path": "in/e.parquet"})
	for i := range 600 {
		all = append(all, fmt.Sprintf(`{"n":%d}`, 4000+i))
	}
	write(t, s, all[2400:]...)
	closeSink(t, s)
	config := map[string]any{"path": "in"}
	items, cursors, err := r.Read(m, config)
	if diff := cmp.Diff(all, items); diff != "" || err != nil {
		t.Fatal(diff, err)
	}
	if len(cursors) < 15 {
		t.Fatalf("only %d marks", len(cursors))
	}
	seen := map[int]bool{}
	for _, c := range cursors {
		r.Env.Cursor = c
		items, _, err := r.Read(m, config)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(all[len(all)-len(items):], append([]string{}, items...)); diff != "" {
			t.Errorf("%s: %s", c, diff)
		}
		seen[len(items)] = true
	}
	if len(seen) != len(cursors) || !seen[0] {
		t.Errorf("%d marks lead to %d places", len(cursors), len(seen))
	}
	r.Env.Cursor = cursors[5]
	put(t, r.Env.Dir, "in/0.ndjson", "{}\n")
	if _, _, err := r.Read(m, config); stepwell.CodeOf(err) != stepwell.CodeConflict || stepwell.HintOf(err) == "" {
		t.Error("a new file before:", err)
	}
	if err := os.Remove(filepath.Join(r.Env.Dir, "in/0.ndjson")); err != nil {
		t.Fatal(err)
	}
	put(t, r.Env.Dir, "in/c.csv", "n\n1\n")
	r.Env.Cursor = cursors[7]
	if _, _, err := r.Read(m, config); stepwell.CodeOf(err) != stepwell.CodeConflict {
		t.Error("a file that shrank:", err)
	}
}

func TestReadConfig(t *testing.T) {
	m, _ := modules(t)
	for want, config := range map[string]map[string]any{
		"path is neither": {"path": 3},
		"a path is empty": {"path": []any{""}},
		"gs://":           {"path": "gs://b/k"},
		"the delimiter":   {"path": "a", "delimiter": "::"},
		"encoding":        {"path": "a", "encoding": "klingon"},
		"same character":  {"path": "a", "delimiter": ";", "quote": ";"},
		"path \"a[\"":     {"path": "a", "at": "a["},
	} {
		got := m.Check(config)
		if len(got) != 1 || !strings.Contains(got[0].Error(), want) {
			t.Errorf("%s: %v", want, got)
		}
	}
	if got := m.Check(map[string]any{"path": "{{ params.x }}", "encoding": "{{ params.e }}"}); len(got) != 0 {
		t.Error(got)
	}
	r := streamtest.New(t)
	if _, _, err := r.Read(m, map[string]any{"path": "*.json"}); stepwell.CodeOf(err) != stepwell.CodeNotFound {
		t.Error(err)
	}
	if items, _, err := r.Read(m, map[string]any{"path": "*.json", "allow_empty": true}); err != nil || len(items) != 0 {
		t.Error(err)
	}
	if got := m.Try(t.Context(), r.Env, map[string]any{"path": "none"}); len(got) != 1 {
		t.Error(got)
	}
}

// FuzzEach reads anything in any format: it ends, its rows are bounded, and going on behind a row gives what
// followed it.
func FuzzEach(f *testing.F) {
	for _, tt := range formatTests {
		f.Add(tt.file, tt.text)
	}
	f.Add("a.csv", "a,b\r\r\n\"\r\",\n")
	names := map[string]bool{"a.ndjson": true, "a.json": true, "a.csv": true, "a.tsv": true, "a.geojson": true, "a": true}
	f.Fuzz(func(t *testing.T, name, text string) {
		if !names[name] {
			name = "a"
		}
		path := put(t, t.TempDir(), name, text)
		shape := Shape{MaxItem: 100}
		all, next := read(t, path, shape, nil)
		for i, p := range next {
			if i%7 != 0 {
				continue
			}
			rest, _ := read(t, path, shape, &p)
			if diff := cmp.Diff(append([]string{}, all[i+1:]...), append([]string{}, rest...)); diff != "" {
				t.Errorf("behind row %d (%+v): %s", i, p, diff)
			}
		}
	})
}

// FuzzCSV writes cells as CSV and reads them again.
func FuzzCSV(f *testing.F) {
	f.Add("a", "b", true)
	f.Add("\"", "x,\r\n", false)
	f.Fuzz(func(t *testing.T, a, b string, crlf bool) {
		a, b = strings.ToValidUTF8(a, "?"), strings.ToValidUTF8(b, "?")
		e := newTableEncoder(target{delimiter: ','}, []string{"x", "y"})
		text, err := e.Begin(nil)
		if err != nil {
			t.Fatal(err)
		}
		it := streamtest.Item(t, "{}")
		it.Set("x", textValue(a))
		it.Set("y", textValue(b))
		if text, err = e.Row(text, it.Value, 0); err != nil {
			t.Fatal(err)
		}
		if crlf {
			text = append(text[:len(text)-1], "\r\n"...)
		}
		got, _ := read(t, put(t, t.TempDir(), "a.csv", string(text)), Shape{AllText: true}, nil)
		if want := "2 " + string(it.Bytes()); len(got) != 1 || got[0] != want {
			t.Errorf("%q\n%q\n%q", want, got, text)
		}
	})
}
