package ingest

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stac/stactest"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/streamtest"
)

// drop counts items.
type drop struct{ n int }

func (d *drop) Item(*stream.Item) error   { d.n++; return nil }
func (d *drop) Mark(any) error            { return nil }
func (d *drop) Fail(stream.Failure) error { return nil }
func (d *drop) Expect(int64)              {}

func benchmark(b *testing.B, config map[string]any, want int) {
	b.Helper()
	m := module(b, "stac.ingest")
	checker, err := spec.Compile(m.Spec.Params, false)
	if err != nil {
		b.Fatal(err)
	}
	r := streamtest.New(b)
	for b.Loop() {
		c, err := m.Open(context.Background(), r.Env, checker.Apply(config))
		if err != nil {
			b.Fatal(err)
		}
		out := &drop{}
		if err := c.(stream.Source).Read(context.Background(), nil, out); err != nil || out.n != want {
			b.Fatal(out.n, err)
		}
	}
	b.ReportMetric(float64(want)*float64(b.N)/b.Elapsed().Seconds(), "items/s")
}

// BenchmarkFile reads 100,000 items of one file.
func BenchmarkFile(b *testing.B) {
	path := filepath.Join(b.TempDir(), "x.ndjson")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	for _, text := range stactest.Generate("c", 100_000) {
		if _, err := f.Write(append(text, '\n')); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	benchmark(b, map[string]any{"source": path}, 100_000)
}

// BenchmarkAPI reads 20,000 small items in pages of 1,000; the server's time counts too.
func BenchmarkAPI(b *testing.B) {
	s := stactest.Start(b, stactest.Options{Items: stactest.Generate("made", 20_000)})
	benchmark(b, map[string]any{"source": s.URL, "collection_id": "made", "limit": 1000, "rate_limit": 0}, 20_000)
}

// BenchmarkRecorded reads 750 recorded items of 13 kB in pages of 100; the server's time counts too.
func BenchmarkRecorded(b *testing.B) {
	var items []json.RawMessage = lines(b, shared(b, "items/planetarycomputer.microsoft.com__landsat-8-c2-l2.ndjson"))
	s := stactest.Start(b, stactest.Options{Items: items})
	benchmark(b, map[string]any{"source": s.URL, "collection_id": "landsat-8-c2-l2", "limit": 100, "rate_limit": 0}, 750)
}
