package scaffold

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stac/transform"
	"github.com/stepwell/stepwell/stac/update"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/files"
	"github.com/stepwell/stepwell/stream/streamtest"
)

// A table becomes a file of items and a collection, by a segment as an execution runs it.
func TestSegment(t *testing.T) {
	dir := t.TempDir()
	const table = "scene,taken,wkt\nA,2020-01-01,POINT (1 2)\nB,soon,POINT (3 4)\nC,2020-02-01,\nD,2020-03-01,POINT (5 6)\n"
	if err := os.WriteFile(filepath.Join(dir, "t.csv"), []byte(table), 0o600); err != nil {
		t.Fatal(err)
	}
	places := files.New(files.Options{})
	rows := transform.Modules(places)[0] // in the role that it has at the beginning
	rows.Spec.Name, rows.Spec.Aliases, rows.Spec.Stream = "rows", nil, &spec.Stream{Role: spec.Source}
	var modules []stream.Module
	for _, m := range [][]stream.Module{{rows}, Modules(places), update.Modules(places), files.Modules(files.ModuleOptions{Places: places})} {
		modules = append(modules, m...)
	}
	steps := []stream.Step{
		{ID: "rows", Module: "rows", Config: object{"source_file": "t.csv", "field_mapping": object{"id": "scene", "datetime": "taken", "geometry": "wkt"}}},
		{ID: "items", Module: "ScaffoldModule", Inputs: []string{"rows"}, Config: object{"collection_id": "c"}},
		{ID: "note", Module: "ModifyModule", Inputs: []string{"items"}, Config: object{"updates": object{"properties.note": "{item_id}"}}},
		{ID: "collection", Module: "stac.scaffold", Inputs: []string{"note"}, Config: object{"mode": "collection", "output_path": "out/collection.json"}},
		{ID: "out", Module: "stream.write", Inputs: []string{"collection"}, Config: object{"path": "out/items.ndjson"}},
	}
	outcome := streamtest.Run(t.Context(), t, streamtest.Segment{Modules: modules, Steps: steps, Dir: dir})
	if outcome.Err != nil {
		t.Fatal(outcome.Err, outcome.Lines)
	}
	text, err := os.ReadFile(filepath.Join(dir, "out", "items.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSpace(string(text)), "\n"); len(lines) != 2 || !strings.Contains(lines[0], `"note":"A"`) || !strings.Contains(lines[1], `"id":"D"`) {
		t.Errorf("items:\n%s", text)
	}
	if len(outcome.Failures) != 2 {
		t.Errorf("failures: %v", outcome.Failures)
	}
	collection, err := os.ReadFile(filepath.Join(dir, "out", "collection.json"))
	if err != nil {
		t.Fatal(err)
	}
	if got := compact(t, string(collection)); !strings.Contains(got, `"extent":{"spatial":{"bbox":[[1,2,5,6]]},"temporal":{"interval":[["2020-01-01T00:00:00Z","2020-03-01T00:00:00Z"]]}}`) {
		t.Errorf("collection: %s", got)
	}
}
