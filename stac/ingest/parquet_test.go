package ingest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/geoparquet"
	"github.com/stepwell/stepwell/stac/stactest"
	"github.com/stepwell/stepwell/stream/parquet"
	"github.com/stepwell/stepwell/stream/streamtest"
)

// TestParquet reads items from stac-geoparquet, and the rows of plain Parquet.
func TestParquet(t *testing.T) {
	r := streamtest.New(t)
	f, err := geoparquet.New(t.TempDir(), geoparquet.Options{})
	if err != nil {
		t.Fatal(err)
	}
	made := stactest.Generate("made", 300)
	for _, text := range made {
		v, err := item.Parse(slices.Clone(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Add(v); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Close(t.Context(), filepath.Join(r.Env.Dir, "items.parquet"), nil); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(r.Env.Dir, "plain.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := parquet.NewWriter(out, parquet.Schema{{Name: "id", Type: &parquet.Type{Kind: parquet.Text}}}, parquet.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(item.NewObject()); err != nil {
		t.Fatal(err)
	}
	row := item.NewObject()
	row.Set("id", item.OfText("p"))
	if err := w.Write(row); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	m := module(t, "stac.ingest")
	got, cursors, _, err := read(t, r, m, map[string]any{"source": "items.parquet"})
	if err != nil || len(got) != 300 || !strings.Contains(got[0], `"type":"Feature"`) || !strings.Contains(got[299], `"coordinates"`) {
		t.Fatal(len(got), r.Failures(), err)
	}
	r.Env.Cursor = cursors[0]
	rest, _, _, err := read(t, r, m, map[string]any{"source": "items.parquet"})
	if err != nil || !slices.Equal(rest, got[portionRows:]) {
		t.Errorf("%d items behind the first cursor, %v", len(rest), err)
	}
	r.Env.Cursor = nil
	got, _, _, err = read(t, r, m, map[string]any{"source": "plain.parquet", "format": "parquet"})
	if err != nil || len(got) != 2 || !strings.Contains(got[1], `"id":"p"`) {
		t.Error(got, r.Failures(), err)
	}
}
