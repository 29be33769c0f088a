package app_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
)

// oddIDs are ids that people do have, and those that somebody may try.
var oddIDs = []string{"a/b", "a_b", "..", ".", "../../up", "/etc/passwd", "C:\\x", "a b", "a%2Fb", "ü", "u\u0308", "漢字", "🛰", "CON", "item.json", "?x=1#y", "-rf", ".hidden", "A", "a",
	strings.Repeat("long", 75), strings.Repeat("long", 75) + "!", strings.Repeat("漢", 100), "tab\tand\nline", "\"quoted\"", "collection", "catalog", "null", "{item_id}", "{{ 1 }}"}

func oddItems(t testing.TB, collection string) []json.RawMessage {
	t.Helper()
	out := make([]json.RawMessage, len(oddIDs))
	template := parsed(t, sound(1)[0])
	for i, id := range oddIDs {
		v := template.Clone()
		v.Set("id", item.OfText(id))
		v.Set("collection", item.OfText(collection))
		out[i] = v.Bytes()
	}
	return out
}

func (r *streamRig) items(name string, items []json.RawMessage) {
	r.t.Helper()
	var text strings.Builder
	for _, it := range items {
		text.Write(it)
		text.WriteByte('\n')
	}
	r.file(name, text.String())
}

const copyDoc = `
name: copy
steps:
  - {id: ingest, module: stac.ingest, config: {source: @FROM@}}
  - {id: output, module: stac.output, depends_on: [ingest], config: {@OUTPUT@}}
`

// TestOddIDs writes items of odd ids in every form and reads them again; nothing is written anywhere else.
func TestOddIDs(t *testing.T) {
	for name, tt := range map[string]struct{ output, back string }{
		"json":    {"format: json, base_dir: out", "out/*/items/*.json"},
		"flat":    {"format: json, output_path: out, organize_by: flat", "out/*.json"},
		"item_id": {"format: json, output_path: out", "out/*/*.json"},
		"catalog": {"format: catalog, base_dir: out", "out/catalog.json"},
		"ndjson":  {"format: ndjson, base_dir: out", "out/**/*.ndjson"},
		"parquet": {"format: parquet, base_dir: out", "out/**/*.parquet"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newStacRig(t)
			deep := filepath.Join(r.dir, "x", "y", "z")
			if err := os.MkdirAll(deep, 0o755); err != nil {
				t.Fatal(err)
			}
			root := r.dir
			r.dir = deep
			r.items("in.ndjson", oddItems(t, "made"))
			o := r.run(copyDoc, "FROM", "in.ndjson", "OUTPUT", tt.output)
			o.want(stepwell.ExecutionCompleted, 0)
			r.dir = root
			for _, file := range r.names(".") {
				if !strings.HasPrefix(file, "x/y/z/out/") && !strings.HasPrefix(file, "stepwell.db") && file != "x/y/z/in.ndjson" && file != "x/y/z/failures.json" && file != "x/y/z/summary.json" {
					t.Errorf("%s is where it should not be", file)
				}
			}
			r.dir = deep
			back := tt.back
			if name == "flat" || name == "item_id" { // the manifest and the collection are beside the items
				back = "back"
				r.gather(back)
			}
			r.run(copyDoc, "FROM", back, "OUTPUT", "format: ndjson, output_path: back.ndjson").want(stepwell.ExecutionCompleted, 0)
			want := slices.Sorted(slices.Values(oddIDs))
			if got := ids(t, r.lines("back.ndjson")); !slices.Equal(got, want) {
				t.Errorf("%d ids come back, want %d: %q", len(got), len(want), got)
			}
		})
	}
}

// gather copies the items of out into a directory.
func (r *streamRig) gather(to string) {
	r.t.Helper()
	if err := os.Mkdir(filepath.Join(r.dir, to), 0o755); err != nil {
		r.t.Fatal(err)
	}
	n := 0
	for _, name := range r.names("out") {
		if text := r.read("out/" + name); textOf(parsed(r.t, []byte(text)).Get("type")) == "Feature" {
			r.file(fmt.Sprintf("%s/%d.json", to, n), text)
			n++
		}
	}
}

// TestOddCollections has collections with such names, and items of many collections in one stream.
func TestOddCollections(t *testing.T) {
	r := newStacRig(t)
	var all []json.RawMessage
	names := []string{"a/b", "..", "ü", "plain", strings.Repeat("long", 75)}
	for i := range 10 {
		for _, c := range names {
			all = append(all, oddItems(t, c)[i])
		}
	}
	r.items("in.ndjson", all)
	r.run(copyDoc, "FROM", "in.ndjson", "OUTPUT", "format: catalog, base_dir: out").want(stepwell.ExecutionCompleted, 0)
	items, collections := r.crawl("out/catalog.json")
	if len(items) != 50 || len(collections) != 5 {
		t.Errorf("%d items of %d collections", len(items), len(collections))
	}
	for _, name := range r.names(".") {
		if !strings.HasPrefix(name, "out/") && !strings.HasPrefix(name, "stepwell.db") && name != "in.ndjson" && name != "failures.json" && name != "summary.json" {
			t.Errorf("%s is where it should not be", name)
		}
	}
}

// TestDuplicates has an item twice as it is, and one twice with other content: the second of these is refused.
func TestDuplicates(t *testing.T) {
	for _, output := range []string{"format: json, base_dir: out", "format: ndjson, output_path: out/all.ndjson", "format: catalog, base_dir: out", "format: parquet, base_dir: out"} {
		t.Run(output, func(t *testing.T) {
			r := newStacRig(t)
			list := sound(5)
			other := parsed(t, list[1]).Clone()
			other.Get("properties").Set("n", item.OfText("changed"))
			elsewhere := parsed(t, list[2]).Clone()
			elsewhere.Set("collection", item.OfText("other"))
			r.items("in.ndjson", append(list, list[0], other.Bytes(), elsewhere.Bytes()))
			o := r.run(copyDoc, "FROM", "in.ndjson", "OUTPUT", output)
			o.want(stepwell.ExecutionCompletedWithFailures, 1)
			if len(o.failures) == 1 && (o.failures[0].Item != "item-00002" || o.failures[0].Step != "output" || o.failures[0].Context.Line != 7) {
				t.Errorf("%+v", o.failures)
			}
			if o.count("output", "items_written") != 6 || o.count("output", "items_repeated") != 1 {
				t.Errorf("%s", o.steps["output"].Output)
			}
		})
	}
}

// TestOddFiles reads files that are no good: what is good in them is there, and what is not is a failure with its place.
func TestOddFiles(t *testing.T) {
	good := sound(3)
	lines := string(good[0]) + "\n" + string(good[1]) + "\n"
	nested := func(n int) string {
		return strings.Replace(string(good[2]), `"n":2`, `"n":`+strings.Repeat(`{"a":[`, n)+"1"+strings.Repeat("]}", n), 1)
	}
	for name, tt := range map[string]struct {
		file, text string
		want       int // items
		line       int // of the failure; 0: none, -1: without a line
	}{
		"deep":          {"in.ndjson", lines + nested(100) + "\n", 3, 0},
		"too deep":      {"in.ndjson", lines + nested(50_000) + "\n" + string(good[2]) + "\n", 3, 3},
		"torn":          {"in.ndjson", lines + string(good[2][:100]), 2, 3},
		"nonsense":      {"in.ndjson", string(good[0]) + "\nnonsense\n" + string(good[1]) + "\n", 2, 2},
		"no object":     {"in.ndjson", string(good[0]) + "\n[1,2]\n" + string(good[1]) + "\n", 2, 2},
		"no id":         {"in.ndjson", string(good[0]) + "\n" + `{"type":"Feature"}` + "\n" + string(good[1]) + "\n", 2, 2},
		"mark, CRLF":    {"in.ndjson", "\ufeff" + strings.ReplaceAll(lines, "\n", "\r\n"), 2, 0},
		"torn list":     {"in.json", `[` + string(good[0]) + "," + string(good[1]) + "," + string(good[2][:100]), 2, -1},
		"not UTF-8":     {"in.ndjson", string(good[0]) + "\n" + strings.Replace(string(good[2]), "item-", "\xff", 1) + "\n" + string(good[1]) + "\n", 2, 2},
		"a key twice":   {"in.ndjson", string(good[0]) + "\n" + strings.Replace(string(good[2]), `"id":`, `"id":"x","id":`, 1) + "\n" + string(good[1]) + "\n", 2, 2},
		"large numbers": {"in.ndjson", lines + strings.Replace(string(good[2]), `"n":2`, `"n":123456789012345678901234567890.10`, 1) + "\n", 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newStacRig(t)
			r.file(tt.file, tt.text)
			o := r.run(copyDoc, "FROM", tt.file, "OUTPUT", "format: ndjson, output_path: out.ndjson")
			if tt.line == 0 {
				o.want(stepwell.ExecutionCompleted, 0)
			} else {
				o.want(stepwell.ExecutionCompletedWithFailures, 1)
				for _, f := range o.failures {
					if filepath.Base(f.Context.File) != tt.file || tt.line > 0 && f.Context.Line != tt.line || len(f.Message) > 600 {
						t.Errorf("%+v", f)
					}
				}
			}
			if n := len(r.lines("out.ndjson")); n != tt.want {
				t.Errorf("%d items, want %d", n, tt.want)
			}
			if name == "large numbers" && !strings.Contains(r.read("out.ndjson"), "123456789012345678901234567890.10") {
				t.Error("the number has changed")
			}
		})
	}
}

// TestTornArchive reads a gzip file that ends too early: the rows before are there, and one failure names the file.
func TestTornArchive(t *testing.T) {
	r := newStacRig(t)
	var packed strings.Builder
	z := gzip.NewWriter(&packed)
	for _, it := range sound(2000) {
		fmt.Fprintf(z, "%s\n", it)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	r.file("in.ndjson.gz", packed.String()[:packed.Len()*3/4])
	o := r.run(copyDoc, "FROM", "in.ndjson.gz", "OUTPUT", "format: ndjson, output_path: out.ndjson")
	o.want(stepwell.ExecutionCompletedWithFailures, 1)
	if n := len(ids(t, r.lines("out.ndjson"))); n < 1000 || n >= 2000 {
		t.Errorf("%d items", n)
	}
	for _, f := range o.failures {
		if filepath.Base(f.Context.File) != "in.ndjson.gz" || f.Step != "ingest" {
			t.Errorf("%+v", f)
		}
	}
}

// TestLargeList reads 100 MB of items on one line without holding them.
func TestLargeList(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("left out: a list of 100 MB")
	}
	r := newStacRig(t)
	f, err := os.Create(filepath.Join(r.dir, "large.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	template := strings.Replace(string(sound(1)[0]), `"n":0`, `"n":0,"text":"`+strings.Repeat("0123456789", 200)+`"`, 1)
	n := 0
	sep := "["
	for size := 0; size < 100_000_000; n++ {
		text := sep + strings.Replace(template, "item-00001", fmt.Sprintf("item-%06d", n), 1)
		size += len(text)
		w.WriteString(text) //nolint:errcheck // Flush tells
		sep = ","
	}
	w.WriteString("]") //nolint:errcheck // Flush tells
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	r.file("doc.yaml", fill(copyDoc, "FROM", "large.json", "OUTPUT", "format: ndjson, output_path: out/items.ndjson"))
	o, mib := r.measured()
	o.want(stepwell.ExecutionCompleted, 0)
	t.Logf("%d items, %d MiB", n, mib)
	if got := r.countLines("out/items.ndjson"); got != n || mib > 200 {
		t.Errorf("%d of %d items, %d MiB", got, n, mib)
	}
}
