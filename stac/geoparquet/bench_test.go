package geoparquet_test

import (
	"context"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/geoparquet"
)

// BenchmarkWrite writes Landsat items under new ids; -benchtime 50000x for a figure that has row groups in it.
func BenchmarkWrite(b *testing.B) {
	items := valid(b)
	f, err := geoparquet.New(b.TempDir(), geoparquet.Options{})
	if err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "items.parquet")
	b.ResetTimer()
	for i := range b.N {
		it := parse(b, items[i%len(items)].Bytes())
		it.Set("id", item.OfText("item-"+strconv.Itoa(i)))
		if err := f.Add(it); err != nil {
			b.Fatal(err)
		}
	}
	added := b.Elapsed()
	stats, err := f.Close(context.Background(), path, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "items/s")
	b.ReportMetric(float64(b.N)/added.Seconds(), "added/s")
	b.ReportMetric(float64(stats.Bytes)/float64(b.N), "file-B/item")
}

// BenchmarkRead reads them.
func BenchmarkRead(b *testing.B) {
	path, _ := write(b, geoparquet.Options{}, valid(b))
	b.ResetTimer()
	n := 0
	for range b.N {
		n += len(read(b, path))
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "items/s")
}
