package files

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
)

func put(t testing.TB, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func gzipped(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func zstded(t testing.TB, text string) string {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(z.EncodeAll([]byte(text), nil))
}

// read gives the rows as "line[:key] text" or "line ! error", and the error of the file as "! error".
func read(t testing.TB, path string, s Shape, from *Position) ([]string, []Position) {
	t.Helper()
	var rows []string
	var places []Position
	err := New(Options{}).Each(context.Background(), path, s, from, func(r Row) error {
		line := fmt.Sprint(r.Line)
		if r.Key != "" {
			line += ":" + r.Key
		}
		if r.Err != nil {
			line += " ! " + r.Err.Error()
		} else if _, err := item.Parse(bytes.Clone(r.Text)); err != nil {
			line += " ? " + string(r.Text)
		} else {
			line += " " + string(r.Text)
		}
		rows = append(rows, line)
		places = append(places, r.Next)
		return nil
	})
	if err != nil {
		rows = append(rows, "! "+strings.ReplaceAll(err.Error(), filepath.Dir(path)+"/", ""))
	}
	return rows, places
}

var formatTests = []struct {
	name, file, text string
	shape            Shape
	want             []string
}{
	{"lines", "a.ndjson", "{\"a\":1}\n\n  \r\n{\"a\":2}\r\n{\"a\":3}", Shape{}, []string{`1 {"a":1}`, `4 {"a":2}`, `5 {"a":3}`}},
	{"lines with a mark", "a.jsonl", "\ufeff{\"a\":1}\n{\"a\":\"ü\"}\n", Shape{}, []string{`1 {"a":1}`, `2 {"a":"ü"}`}},
	{"no lines", "a.ndjson", "", Shape{}, nil},
	{"bad lines continue", "a.ndjson", "{\"a\":\nnull\n{}\n", Shape{}, []string{`1 ? {"a":`, `2 null`, `3 {}`}},
	{"a long line", "a.ndjson", "{\"a\":1}\n{\"a\":\"" + strings.Repeat("x", 100) + "\"}\n{\"a\":2}\n", Shape{MaxItem: 50}, []string{`1 {"a":1}`, `2 ! row 2 is longer than 50 bytes`, `3 {"a":2}`}},
	{"list", "a.json", ` [ {"a":1} ,{"b":[1,{"c":"]}\\\""}]}] `, Shape{}, []string{`1 {"a":1}`, `1 {"b":[1,{"c":"]}\\\""}]}`}},
	{"list with a long row", "a.json", `[{"a":1},{"a":"` + strings.Repeat("x", 100) + `"},{"a":2}]`, Shape{MaxItem: 50}, []string{`1 {"a":1}`, `1 ! row 2 is longer than 50 bytes`, `1 {"a":2}`}},
	{"empty list", "a.json", `[ ]`, Shape{}, nil},
	{"list of others", "a.json", "[\n1,\n{\"a\":1},\"x\"]", Shape{}, []string{`2 ! row 1 is a number, not an object`, `3 {"a":1}`, `3 ! row 3 is a text, not an object`}},
	{"list cut off", "a.json", `[{"a":1},{"a":`, Shape{}, []string{`1 {"a":1}`, "! a.json: byte 14 (line 1): the document ends in the middle of a value"}},
	{"list not closed", "a.json", `[{"a":1}`, Shape{}, []string{`1 {"a":1}`, "! a.json: byte 8 (line 1): the document ends too early"}},
	{"list with a lost comma", "a.json", `[{"a":1} {"a":2}]`, Shape{}, []string{`1 {"a":1}`, "! a.json: byte 9 (line 1): '{' where ']' should be"}},
	{"one more comma", "a.json", `[{"a":1},]`, Shape{}, []string{`1 {"a":1}`, "! a.json: byte 9 (line 1): a value is missing"}},
	{"text behind", "a.json", `[{"a":1}] x`, Shape{}, []string{`1 {"a":1}`, "! a.json: byte 10 (line 1): 'x' follows the end of the document"}},
	{"collection", "a.geojson", `{"type":"FeatureCollection","crs":{"a":[1]},"features":[{"id":1},{"id":2}],"links":[{"x":1}]}`, Shape{}, []string{`1 {"id":1}`, `1 {"id":2}`}},
	{"features first", "a.json", `{"features":[{"id":1}],"numberReturned":1,"type":"FeatureCollection"}`, Shape{}, []string{`1 {"id":1}`}},
	{"collection cut off behind", "a.geojson", `{"features":[{"id":1}],"type":"Fea`, Shape{}, []string{`1 {"id":1}`, "! a.geojson: byte 34 (line 1): the document ends in the middle of a value"}},
	{"collection without features", "a.json", `{"type":"FeatureCollection"}`, Shape{}, []string{"! a.json: byte 28 (line 1): the FeatureCollection has no list of features"}},
	{"one feature", "a.json", "{\n\"type\" : \"Feature\", \"geometry\":{\"type\":\"Point\"}, \"features\":[1]}", Shape{}, []string{`2 {"type":"Feature","geometry":{"type":"Point"},"features":[1]}`}},
	{"by id", "a.json", "{\n\"x\":{\"a\":1},\n\"y\":{\"a\":2}}", Shape{}, []string{`2:x {"a":1}`, `3:y {"a":2}`}},
	{"path", "a.json", `{"a":[1],"data":{"b":{},"items":[{"a":1},{"a":2}]},"z":1}`, Shape{At: "data.items"}, []string{`1 {"a":1}`, `1 {"a":2}`}},
	{"path with an index", "a.json", `[1,{"x.y":{"k":{"a":1}}}]`, Shape{At: `[1]."x.y"`}, []string{`1:k {"a":1}`}},
	{"path through a list", "a.json", `{"r":[1,{"x.y":{"k":{"a":1}}}]}`, Shape{At: `r[1]."x.y"`}, []string{`1:k {"a":1}`}},
	{"path to nothing", "a.json", `{"data":{}}`, Shape{At: "data.items"}, []string{"! a.json: data.items is not in the document"}},
	{"path to a number", "a.json", `{"data":3}`, Shape{At: "data"}, []string{"! a.json: byte 8 (line 1): the rows should be a list or an object, not a number"}},
	{"lines called json", "a.json", "{\"a\":1}\n{\"a\":2}\n", Shape{}, []string{`1 {"a":1}`, `2 {"a":2}`}},
	{"lines without a suffix", "a", "{\"a\":1}\n{\"a\":2}\n", Shape{}, []string{`1 {"a":1}`, `2 {"a":2}`}},
	{"table without a suffix", "a", "a,b\n1,2\n", Shape{}, []string{`2 {"a":1,"b":2}`}},
	{"tabs without a suffix", "a.txt", "a\tb\n1\t2\n", Shape{}, []string{`2 {"a":1,"b":2}`}},
	{"unknown", "a.bin", "\x00\x01", Shape{}, []string{"! a.bin: neither name nor content tell the format"}},
	{"empty document", "a.json", "", Shape{}, []string{"! a.json: the file is empty"}},
	{"types", "a.csv", "i,n,b,e,z,t,x\n1,-2.50e3,true,,007,1.2.3,.5\n0,-0,False, ,00,+1,-.5\n", Shape{},
		[]string{`2 {"i":1,"n":-2.50e3,"b":true,"e":null,"z":"007","t":"1.2.3","x":0.5}`, `3 {"i":0,"n":-0,"b":false,"e":null,"z":"00","t":"+1","x":-0.5}`}},
	{"text", "a.csv", "a,b\n1,2\n,\n", Shape{Text: []string{"a"}}, []string{`2 {"a":"1","b":2}`, `3 {"a":"","b":null}`}},
	{"all text", "a.csv", "a,b\n1,\n", Shape{AllText: true}, []string{`2 {"a":"1","b":""}`}},
	{"text that is not a column", "a.csv", "a,b\n1,2\n", Shape{Text: []string{"c"}}, []string{`! a.csv: line 1: the header has no column "c", which is to be kept as text`}},
	{"quotes", "a.csv", "a,b\r\n\"x, \"\"y\"\"\nz\",2\r\n\"\",\"3\"\r\nit\"s,4\r\n", Shape{}, []string{`2 {"a":"x, \"y\"\nz","b":2}`, `4 {"a":null,"b":3}`, `5 {"a":"it\"s","b":4}`}},
	{"behind a quote", "a.csv", "a,b\n\"x\"y,2\nz,3\n", Shape{}, []string{"2 ! cell 1 continues behind its closing quote", `3 {"a":"z","b":3}`}},
	{"ragged", "a.csv", "a,b\n1\n1,2,3\n\n1,2", Shape{}, []string{"2 ! the row has 1 cells, the header 2", "3 ! the row has 3 cells, the header 2", `5 {"a":1,"b":2}`}},
	{"open quote", "a.csv", "a,b\n1,2\n3,\"x\n", Shape{}, []string{`2 {"a":1,"b":2}`, "! a.csv: the quote opened in line 3 is never closed; the rows behind it are lost"}},
	{"no quotes", "a.csv", "a,b\n\"1,2\n", Shape{Quote: "none"}, []string{`2 {"a":"\"1","b":2}`}},
	{"semicolons", "a.csv", "a;b\n1,5;-,25\n'x;y';1.5\n", Shape{Delimiter: ";", Decimal: ",", Quote: "'"}, []string{`2 {"a":1.5,"b":-0.25}`, `3 {"a":"x;y","b":"1.5"}`}},
	{"no header", "a.tsv", "x\t1\ny\t2\n", Shape{Header: new(bool)}, []string{`1 {"c1":"x","c2":1}`, `2 {"c1":"y","c2":2}`}},
	{"only a header", "a.csv", "a,b\n", Shape{}, nil},
	{"a column twice", "a.csv", "a,a\n1,2\n", Shape{}, []string{`! a.csv: line 1: the header has the column "a" twice`}},
	{"long row", "a.csv", "a,b\n1,\"" + strings.Repeat("x\n", 50) + "\"\n3,4\n", Shape{MaxItem: 50}, []string{"2 ! row 1 is longer than 50 bytes", `53 {"a":3,"b":4}`}},
	{"latin", "a.csv", "a\n\xfcber\n", Shape{Encoding: "latin-1"}, []string{`2 {"a":"über"}`}},
	{"windows", "a.csv", "a\n\x80\n", Shape{Encoding: "windows-1252"}, []string{`2 {"a":"€"}`}},
	{"not UTF-8", "a.csv", "a\n\xfcber\nx\n", Shape{}, []string{"2 ! the row is not UTF-8", `3 {"a":"x"}`}},
	{"utf-16 by its mark", "a.csv", "\xff\xfea\x00\n\x00\xac\x20\n\x00", Shape{}, []string{`2 {"a":"€"}`}},
	{"utf-16", "a.csv", "a\x00\n\x001\x00\n\x00", Shape{Encoding: "utf-16"}, []string{`2 {"a":1}`}},
	{"utf-16be", "a.json", "\x00[\x00{\x00}\x00]", Shape{Encoding: "utf-16be"}, []string{`1 {}`}},
}

func TestFormats(t *testing.T) {
	for _, tt := range formatTests {
		t.Run(tt.name, func(t *testing.T) {
			got, _ := read(t, put(t, t.TempDir(), tt.file, tt.text), tt.shape, nil)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestPositions goes on behind every row of every format, compressed and not, and must find exactly the rest.
func TestPositions(t *testing.T) {
	for _, tt := range formatTests {
		for suffix, text := range map[string]string{"": tt.text, ".gz": gzipped(t, tt.text), ".zst": zstded(t, tt.text)} {
			path := put(t, t.TempDir(), tt.file+suffix, text)
			all, places := read(t, path, tt.shape, nil)
			for i, p := range places {
				raw, err := json.Marshal(p)
				if err != nil {
					t.Fatal(err)
				}
				var from Position
				if err := json.Unmarshal(raw, &from); err != nil {
					t.Fatal(err)
				}
				rest, _ := read(t, path, tt.shape, &from)
				if diff := cmp.Diff(append([]string{}, all[i+1:]...), append([]string{}, rest...)); diff != "" {
					t.Errorf("%s%s behind row %d (%s): %s", tt.name, suffix, i, raw, diff)
				}
			}
		}
	}
}

func TestChangedFiles(t *testing.T) {
	dir := t.TempDir()
	const text = "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n"
	path := put(t, dir, "a.ndjson", text)
	_, places := read(t, path, Shape{}, nil)
	put(t, dir, "a.ndjson", text+"{\"a\":4}\n")
	if got, _ := read(t, path, Shape{}, &places[2]); len(got) != 1 || got[0] != `4 {"a":4}` {
		t.Errorf("a file that has grown: %q", got)
	}
	for name, changed := range map[string]string{"shrunk": text[:8], "no line ends there": strings.ReplaceAll(text, "}\n", "}}") + "    "} {
		put(t, dir, "a.ndjson", changed)
		err := New(Options{}).Each(context.Background(), path, Shape{}, &places[1], func(Row) error { return nil })
		if stepwell.CodeOf(err) != stepwell.CodeConflict || stepwell.HintOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	csv := put(t, dir, "a.csv.gz", gzipped(t, "a\n1\n2\n"))
	err := New(Options{}).Each(context.Background(), csv, Shape{}, &Position{Row: 5}, func(Row) error { return nil })
	if stepwell.CodeOf(err) != stepwell.CodeConflict {
		t.Error(err)
	}
}

func TestCutOff(t *testing.T) {
	dir := t.TempDir()
	var lines strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&lines, "{\"a\":%d,\"b\":\"%x\"}\n", i, i*7919)
	}
	for _, suffix := range []string{".gz", ".zst"} {
		packed := gzipped(t, lines.String())
		if suffix == ".zst" {
			packed = zstded(t, lines.String())
		}
		for _, keep := range []int{len(packed) / 2, len(packed) - 1, 3, 0} {
			path := put(t, dir, "a.ndjson"+suffix, packed[:keep])
			n := 0
			err := New(Options{}).Each(context.Background(), path, Shape{}, nil, func(r Row) error {
				if _, err := item.Parse(r.Text); err != nil {
					t.Errorf("%s: half a row: %s", suffix, r.Text)
				}
				n++
				return nil
			})
			if stepwell.CodeOf(err) != stepwell.CodeInvalid || !strings.Contains(err.Error(), "cut off") {
				t.Errorf("%s cut to %d of %d: %v", suffix, keep, len(packed), err)
			}
			if suffix == ".gz" && keep == len(packed)/2 && n < 1000 {
				t.Errorf("only %d good rows", n)
			}
		}
	}
	damaged := []byte(gzipped(t, lines.String()))
	damaged[len(damaged)-5] ^= 1 // of the checksum
	got, _ := read(t, put(t, dir, "b.ndjson.gz", string(damaged)), Shape{}, nil)
	if last := got[len(got)-1]; !strings.Contains(last, "damaged") {
		t.Error(last)
	}
}

// TestBigList reads a list of 100 MB in one line, and must not hold it.
func TestBigList(t *testing.T) {
	if testing.Short() {
		t.Skip("short: without the list of 100 MB")
	}
	path := filepath.Join(t.TempDir(), "big.json")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	row := []byte(`{"id":"` + strings.Repeat("x", 1000) + `","properties":{"a":[1,2,3]}}`)
	const n = 100_000
	block := append(bytes.Repeat(append(row, ','), 999), row...)
	for i := range n / 1000 {
		if _, err := f.Write(append([]byte{"[,"[min(i, 1)]}, block...)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Write([]byte("]")); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	rows, most := 0, uint64(0)
	err = New(Options{}).Each(context.Background(), path, Shape{}, nil, func(r Row) error {
		if rows++; rows%10_000 == 0 {
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapInuse-min(before.HeapInuse, now.HeapInuse))
		}
		if len(r.Text) != len(row) {
			return fmt.Errorf("a row of %d bytes", len(r.Text))
		}
		return nil
	})
	if err != nil || rows != n {
		t.Fatal(rows, err)
	}
	if most > 50<<20 {
		t.Errorf("%d MiB were held", most>>20)
	}
	t.Logf("at most %d MiB held", most>>20)
}

// TestLongRowIsNotHeld has one row of 64 MiB between two good ones.
func TestLongRowIsNotHeld(t *testing.T) {
	path := put(t, t.TempDir(), "a.json", `[{"a":1},{"a":"`+strings.Repeat("y", 64<<20)+`"},{"a":2}]`)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, _ := read(t, path, Shape{MaxItem: 1 << 20}, nil)
	runtime.ReadMemStats(&after)
	if len(got) != 3 || got[2] != `1 {"a":2}` {
		t.Error(got)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
		t.Errorf("%d MiB were allocated", n>>20)
	}
}

func TestStops(t *testing.T) {
	path := put(t, t.TempDir(), "a.csv", "a\n1\n2\n")
	mine := errors.New("mine")
	err := New(Options{}).Each(context.Background(), path, Shape{}, nil, func(Row) error { return mine })
	if err != mine { //nolint:errorlint // it must come as it is
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(mine)
	if err := New(Options{}).Each(ctx, path, Shape{}, nil, func(Row) error { return nil }); err != mine { //nolint:errorlint // the cause
		t.Error(err)
	}
}
