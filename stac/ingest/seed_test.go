package ingest

import (
	"strings"
	"testing"

	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/streamtest"
)

// TestSeed makes items of ids and parts, and leaks nothing from one to the next.
func TestSeed(t *testing.T) {
	r := streamtest.New(t)
	write(t, r.Env.Dir, "more.json", `["s3", {"id": "s4", "properties": {"n": 1.50}}, 5, true]`)
	write(t, r.Env.Dir, "lines.ndjson", "\"s6\"\n{\"id\":\"s7\",\"collection\":\"own\"}\n")
	m := module(t, "stac.seed")
	got, _, outputs, err := read(t, r, m, map[string]any{"items": []any{"s1", map[string]any{"id": "s2", "properties": map[string]any{"only": "here"}}},
		"source_file": "*.*json", "collection": "c", "defaults": map[string]any{"properties": map[string]any{"p": int64(1)}}})
	want := `{"properties":{"p":1},"id":"s1","collection":"c"}
{"properties":{"p":1,"only":"here"},"id":"s2","collection":"c"}
{"properties":{"p":1},"id":"s6","collection":"c"}
{"properties":{"p":1},"id":"s7","collection":"own"}
{"properties":{"p":1},"id":"s3","collection":"c"}
{"properties":{"p":1,"n":1.50},"id":"s4","collection":"c"}
{"properties":{"p":1},"id":"5","collection":"c"}`
	if err != nil || strings.Join(got, "\n") != want || len(r.Failures()) != 1 || outputs["items"] != int64(7) {
		t.Errorf("%s\n%v %v %v", strings.Join(got, "\n"), r.Failures(), outputs, err)
	}
	r.Env.Collection = map[string]any{"id": "found"}
	got, _, _, err = read(t, r, m, map[string]any{"items": []any{int64(7)}})
	if err != nil || got[0] != `{"id":"7","collection":"found"}` {
		t.Error(got, err)
	}
}

// TestBadSeed has mistakes told.
func TestBadSeed(t *testing.T) {
	m := module(t, "stac.seed")
	if _, err := streamtest.New(t).Open(m, map[string]any{"source_file": "nowhere.json"}); typeOf(err) != stream.ConfigurationError || !strings.Contains(err.Error(), "nowhere.json") {
		t.Errorf("missing file: %v", err)
	}
	for name, config := range map[string]map[string]any{
		"nothing": {}, "two names": {"items": []any{"a"}, "collection": "a", "collection_id": "b"}, "a list": {"items": []any{[]any{}}},
	} {
		if errs := m.Check(config); len(errs) != 1 {
			t.Errorf("%s: %v", name, errs)
		}
	}
	r := streamtest.New(t)
	write(t, r.Env.Dir, "cut.json", `["a", {"id": "b"`)
	got, _, _, err := read(t, r, m, map[string]any{"source_file": "cut.json"})
	if err != nil || len(got) != 1 || len(r.Failures()) != 1 {
		t.Error(got, r.Failures(), err)
	}
	write(t, r.Env.Dir, "none.json", `[]`)
	if _, _, _, err := read(t, r, m, map[string]any{"source_file": "none.json"}); typeOf(err) != stream.ModuleException {
		t.Errorf("an empty list: %v", err)
	}
}
