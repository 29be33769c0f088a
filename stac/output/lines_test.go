package output

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/files"
)

func TestNDJSON(t *testing.T) {
	b := newBench(t, map[string]any{"format": "ndjson", "output_path": "out/all.ndjson.gz"})
	pretty, err := item.Parse([]byte("{\n  \"id\": \"a\",\r\n  \"collection\": \"c\",\n  \"properties\": {\"x\": \"y  z\", \"n\": 1.50}\n}"))
	if err != nil {
		t.Fatal(err)
	}
	plain := stacItem("d", "b", 1)
	plain.Delete("links")
	_, out := b.run(nil, stream.New(pretty, stream.Place{}), plain)
	if got := b.files("out"); !slices.Equal(got, []string{"all.ndjson.gz", "all.ndjson.gz.manifest.json"}) {
		t.Errorf("files %q", got)
	}
	packed, err := os.ReadFile(b.path("out/all.ndjson.gz"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	want := `{"id":"a","collection":"c","properties":{"x":"y  z","n":1.50}}` + "\n" + string(plain.Bytes()) + "\n"
	if err != nil || string(text) != want {
		t.Errorf("got %s (%v)\nwant %s", text, err, want)
	}
	m := b.doc("out/all.ndjson.gz.manifest.json")
	if string(m.Get("total_items").Bytes()) != "2" || string(m.Get("total_size_bytes").Bytes()) != fmt.Sprint(len(packed)) || out["files_written"].([]string)[0] != b.path("out/all.ndjson.gz") {
		t.Errorf("%s %v", m.Bytes(), out)
	}
}

func TestNDJSONEmpty(t *testing.T) {
	b := newBench(t, map[string]any{"format": "ndjson", "output_path": "all.ndjson"})
	_, out := b.run(nil)
	if text, err := os.ReadFile(b.path("all.ndjson")); err != nil || len(text) > 0 || out["items_written"] != int64(0) {
		t.Errorf("%q %v %v", text, err, out)
	}
}

// TestNDJSONNotVisible holds a file back until it is complete, and keeps the old one meanwhile.
func TestNDJSONNotVisible(t *testing.T) {
	b := newBench(t, map[string]any{"format": "ndjson", "base_dir": "out"})
	sink := b.mustOpen(nil)
	b.write(sink, stacItems("c", 0, 4)...)
	b.commit(sink, 4)
	if got := b.files("out"); len(got) != 0 {
		t.Errorf("too early: %q", got)
	}
	state, _ := b.close(sink)
	before, err := os.ReadFile(b.path("out/c/items.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	sink = b.mustOpen(state)
	b.write(sink, stacItems("c", 4, 6)...)
	b.commit(sink, 2)
	if now, err := os.ReadFile(b.path("out/c/items.ndjson")); err != nil || !bytes.Equal(now, before) {
		t.Errorf("the old file has changed: %v", err)
	}
	b.close(sink)
	b.wantFound(stacItems("c", 0, 6)...)
}

func TestHasRelative(t *testing.T) {
	for text, want := range map[string]bool{
		`{"href":"https://x/y"}`: false, `{"href": "./a"}`: true, `{"href" : "a/b:c"}`: true, `{"href":"s3://b/k"}`: false,
		`{"href":"/vsis3/x"}`: false, `{"href":null,"x":1}`: false, `{"a":"href"}`: false, `{"href":"\u002e/a"}`: true, `{"href":""}`: false,
		`{"href":"https://x"},{"href":"../b"}`: true,
	} {
		if got := hasRelative([]byte(text)); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}

func TestRelative(t *testing.T) {
	for _, c := range [][3]string{
		{"", "catalog.json", "./catalog.json"}, {"a/b", "catalog.json", "../../catalog.json"}, {"a/b", "a/c/x.json", "../c/x.json"},
		{"a", "a/x y%2F.json", "./x%20y%252F.json"}, {"a/b", "a/b/снимок.json", "./снимок.json"}, {"a", "a:b.json", "../a%3Ab.json"},
	} {
		if got := relative(c[0], c[1]); got != c[2] {
			t.Errorf("from %q to %q: %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

// TestIndexSize counts what the index costs per item.
func TestIndexSize(t *testing.T) {
	x := index{}
	for i := range 1000 {
		id := fmt.Sprint(i)
		key, _, v := x.lookup("c", id, valueOf(id, []byte(id)))
		if v != fresh {
			t.Fatalf("%s is not fresh: %v", id, v)
		}
		x[key] = valueOf(id, []byte(id))
	}
	if _, isTwin, v := x.lookup("c", "7", valueOf("7", []byte("7"))); isTwin || v != repeated {
		t.Error("a repeat is not seen")
	}
	if _, isTwin, v := x.lookup("c", "7", valueOf("7", []byte("other"))); isTwin || v != duplicate {
		t.Error("a duplicate is not seen")
	}
}

// FuzzLedger reads damaged ledgers: an error or records, never a panic.
func FuzzLedger(f *testing.F) {
	dir := f.TempDir()
	l, err := newLedger(dir, "x")
	if err != nil {
		f.Fatal(err)
	}
	for _, r := range []record{{kind: recordTime, time: 5}, {kind: recordUnit, text: `{"id":"c"}`}, {kind: recordNode, number: 1, text: "c"},
		{kind: recordItem, entry: entry{name: "a", title: "b", size: 7, node: 1}}} {
		l.add(r)
	}
	if err := l.sync(); err != nil {
		f.Fatal(err)
	}
	text, err := os.ReadFile(ledgerPath(dir))
	if err != nil {
		f.Fatal(err)
	}
	head := 1 + len(l.id+" x")
	f.Add(text[head:])
	f.Fuzz(func(t *testing.T, text []byte) {
		b := &base{index: index{}, byID: map[string]*unit{}}
		tr := &tree{base: b, named: map[string]*node{}}
		b.resumed = tr.seen
		r := &ledgerReader{in: newReader(text)}
		r.each(b.loadRecord)
	})
}

func newReader(text []byte) *bufio.Reader { return bufio.NewReaderSize(bytes.NewReader(text), 512) }

// TestS3 writes every format to a bucket, goes on in a later run, and reads it back.
func TestS3(t *testing.T) {
	backend := s3mem.New()
	if err := backend.CreateBucket("data"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	places := files.New(files.Options{S3: files.S3Options{Endpoint: server.URL, AccessKey: "key", SecretKey: "secret"}})
	for format, want := range map[string]string{"json": "c/collection.json c/items/a.json c/items/b.json manifest.json", "ndjson": "c/items.ndjson manifest.json",
		"catalog": "c/a.json c/b.json c/collection.json catalog.json manifest.json", "parquet": "c/items/part-00001.parquet c/items/part-00002.parquet manifest.json"} {
		b := newBench(t, map[string]any{"format": format, "base_dir": "s3://data/" + format})
		b.module = Modules(Options{Places: places})[0]
		state, _ := b.run(nil, stacItem("c", "a", 1))
		state, _ = b.run(state, stacItem("c", "b", 2))
		if format == "parquet" { // the columns of what is far away count, too
			odd := stacItem("c", "odd", 3)
			odd.Get("properties").Set("n", item.OfText("three"))
			b.run(state, odd)
			if f := b.rig.Failures(); len(f) != 1 || !strings.Contains(f[0].Err.Error(), `column "n"`) {
				t.Errorf("failures %v", f)
			}
		}
		got, err := places.List(t.Context(), "", "s3://data/"+format+"/**")
		for i := range got {
			got[i] = strings.TrimPrefix(got[i], "s3://data/"+format+"/")
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q %v", format, got, err)
		}
		if format == "ndjson" {
			n := 0
			err := places.Each(t.Context(), "s3://data/ndjson/c/items.ndjson", files.Shape{}, nil, func(files.Row) error { n++; return nil })
			if err != nil || n != 2 {
				t.Errorf("%d lines, %v", n, err)
			}
		}
	}
}
