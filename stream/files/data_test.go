package files

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stepwell/stepwell/item"
)

// TestRealData counts the rows of real files: items of several catalogues, and tables made of them.
func TestRealData(t *testing.T) {
	dir := os.Getenv("STEPWELL_SHARED_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skip("no shared data: real files are not read")
	}
	p := New(Options{})
	for pattern, want := range map[string]int{
		"items/*.ndjson": 1268, "tables/naip_scenes.csv": 437, "tables/landsat_scenes.jsonl": 750, "tables/sentinel2_footprints.geojson": 33,
		"stac-manager-samples/sentinel-2-l2a-api/sample-data/items.json": 20, "stac-manager-samples/sentinel-2-l2a-api/sample-data/items.parquet": 20,
		"stac-manager-samples/sentinel-2-l2a-api/input-data/cloud-cover.*": 40, "stac-manager-samples/sentinel-2-l2a-api/input-data/updates.json": 20,
	} {
		paths, err := p.List(context.Background(), dir, pattern)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, path := range paths {
			err := p.Each(context.Background(), path, Shape{}, nil, func(r Row) error {
				n++
				if r.Err != nil {
					return r.Err
				}
				_, err := item.Parse(bytes.Clone(r.Text))
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
		if n != want {
			t.Errorf("%s: %d rows, not %d", pattern, n, want)
		}
	}
}
