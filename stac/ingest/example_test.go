package ingest

import (
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/stepwell/stepwell/spec"
)

// TestExamples has the examples of the documentation pass the checks.
func TestExamples(t *testing.T) {
	for _, m := range Modules(options(t)) {
		for _, e := range m.Spec.Examples {
			var step struct {
				Module string
				Config map[string]any
			}
			if err := yaml.Unmarshal([]byte(e.YAML), &step); err != nil || step.Module != m.Spec.Name {
				t.Errorf("%s: %q, %v", e.Title, step.Module, err)
			}
			for _, problem := range spec.Check(m.Spec.Params, false, step.Config) {
				t.Errorf("%s: %s", e.Title, problem)
			}
			for _, err := range m.Check(step.Config) {
				t.Errorf("%s: %v", e.Title, err)
			}
		}
	}
}

// TestSamples has the configs of the source systems' own workflows pass the checks.
func TestSamples(t *testing.T) {
	for text, name := range map[string]string{
		"{mode: file, source: samples/items.json, collection_id: sentinel-2-l2a}": "stac.ingest",
		"{mode: api, source: 'https://planetarycomputer.microsoft.com/api/stac/v1', collection_id: sentinel-2-l2a, max_items: 50, bbox: [-122.5, 37.5, -122, 38.0], datetime: 2024-01-01/2024-01-31}": "stac.ingest",
		"{collection_id: C, source_file: data/items.parquet, limit: 10, concurrency: 5, rate_limit: 10.0}":                                                                                            "stac.ingest",
		"{catalog_url: 'https://cmr.earthdata.nasa.gov/stac', collection_id: HLSS30, concurrency: 10, filters: {bbox: [1, 2, 3, 4], datetime: 2024-01-01/.., query: {a: {lt: 1}}, ids: [a]}}":         "stac.ingest",
		"{collection_id: C, filters: {temporal: {start: '2024-01-01', end: '2024-12-31'}, spatial: [1, 2, 3, 4]}}":                                                                                    "stac.ingest",
		"{catalog_url: 'https://example.com/stac', collection_ids: [MODIS_*], filters: {temporal: {start: '2020-01-01T00:00:00Z', end: '2020-12-31T23:59:59Z'}, spatial: [-180, -90, 180, 90]}}":      "stac.discovery",
		"{items: [a, {id: b}], defaults: {properties: {x: 1}}}": "stac.seed",
	} {
		var config map[string]any
		if err := yaml.Unmarshal([]byte(text), &config); err != nil {
			t.Fatal(err)
		}
		m := module(t, name)
		for _, problem := range spec.Check(m.Spec.Params, false, config) {
			t.Errorf("%s: %s", text, problem)
		}
		for _, err := range m.Check(config) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
