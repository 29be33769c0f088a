package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/stac/stactest"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/streamtest"
)

type ctx = context.Context

func chaos() []stactest.Fault {
	return []stactest.Fault{
		{Kind: "search", Page: 2, Status: 429, After: "2"},
		{Kind: "search", Page: 4, Status: 503, Times: 2},
		{Kind: "search", Page: 5, Reset: true},
		{Kind: "search", Page: 6, Cut: true},
	}
}

// TestChaos is P1: faults on half of the pages, and nothing lost or doubled.
func TestChaos(t *testing.T) {
	items := lines(t, shared(t, "items/planetarycomputer.microsoft.com__landsat-8-c2-l2.ndjson"))
	s := stactest.Start(t, stactest.Options{Items: items, Overlap: 1, Faults: chaos()})
	r := streamtest.New(t)
	began := time.Now()
	got, _, outputs, err := read(t, r, module(t, "stac.ingest"), map[string]any{"mode": "api", "source": s.URL, "collection_id": "landsat-8-c2-l2", "limit": 100})
	if err != nil {
		t.Fatal(err)
	}
	ids := idsOf(t, got)
	if len(ids) != 750 || digest(ids) != "d41af95daa8a4978" || outputs["duplicates"] != int64(7) || outputs["retries"] != int64(5) {
		t.Errorf("%d items, digest %s, outputs %v", len(ids), digest(ids), outputs)
	}
	if n, took := s.Count("search"), time.Since(began); n != 13 || took < 2*time.Second {
		t.Errorf("%d searches in %s", n, took)
	}
	if len(r.Failures()) != 0 || !strings.Contains(strings.Join(r.Lines(), "\n"), "duplicates=7") {
		t.Errorf("failures %v, lines %q", r.Failures(), r.Lines())
	}
	for i, text := range got { // as they came, byte for byte
		if want := s.Item("landsat-8-c2-l2", ids[i]); text != string(want) {
			t.Fatalf("item %s has changed", ids[i])
		}
	}
}

// TestSmallChaos is P1 on generated items, without the wait.
func TestSmallChaos(t *testing.T) {
	faults := chaos()
	faults[0].After = "0"
	s := stactest.Start(t, stactest.Options{Items: stactest.Generate("made", 75), Overlap: 1, Faults: faults})
	got, _, outputs, err := read(t, streamtest.New(t), module(t, "stac.ingest"), quick(map[string]any{"catalog_url": s.URL, "collection_id": "made", "limit": 10}))
	if err != nil || len(got) != 75 || outputs["duplicates"] != int64(7) || s.Count("search") != 13 {
		t.Errorf("%d items, %v, %d searches, %v", len(got), outputs, s.Count("search"), err)
	}
}

// TestBrokenLinks is P8.
func TestBrokenLinks(t *testing.T) {
	made := stactest.Generate("made", 40)
	t.Run("loop", func(t *testing.T) {
		s := stactest.Start(t, stactest.Options{Items: made, Faults: []stactest.Fault{{Kind: "search", SameNext: true, Times: -1}}})
		r := streamtest.New(t)
		got, _, _, err := read(t, r, module(t, "stac.ingest"), quick(map[string]any{"catalog_url": s.URL, "collection_id": "made", "limit": 10}))
		f := r.Failures()
		if err != nil || len(got) != 20 || len(f) != 1 || f[0].Type != stream.PaginationLoop || s.Count("search") != 2 {
			t.Errorf("%d items, %d searches, %v, %v", len(got), s.Count("search"), f, err)
		}
	})
	t.Run("another host", func(t *testing.T) {
		other := stactest.Start(t, stactest.Options{Items: made})
		s := stactest.Start(t, stactest.Options{Items: made, Bearer: "a-secret-token", Faults: []stactest.Fault{{Kind: "search", Page: 1, NextHost: other.URL}}})
		got, cursors, _, err := read(t, streamtest.New(t), module(t, "stac.ingest"), quick(map[string]any{"catalog_url": s.URL, "collection_id": "made", "limit": 10,
			"credentials": map[string]any{"bearer": "a-secret-token"}}))
		if err != nil || len(got) != 40 {
			t.Fatal(len(got), err)
		}
		for _, r := range other.Requests() {
			if r.Header.Get("Authorization") != "" {
				t.Error("the other host got the token")
			}
		}
		if strings.Contains(fmt.Sprintf("%s", cursors), "a-secret-token") {
			t.Error("the token is in a cursor")
		}
	})
	t.Run("long", func(t *testing.T) {
		s := stactest.Start(t, stactest.Options{Items: made, Faults: []stactest.Fault{{Kind: "search", Page: 1, NextPad: 9000}}})
		got, _, _, err := read(t, streamtest.New(t), module(t, "stac.ingest"), quick(map[string]any{"catalog_url": s.URL, "collection_id": "made", "limit": 10}))
		if err != nil || len(got) != 40 {
			t.Error(len(got), err)
		}
	})
	t.Run("empty page", func(t *testing.T) {
		s := stactest.Start(t, stactest.Options{Items: made, Faults: []stactest.Fault{{Kind: "search", Page: 3, Empty: true}}})
		got, _, _, err := read(t, streamtest.New(t), module(t, "stac.ingest"), quick(map[string]any{"catalog_url": s.URL, "collection_id": "made", "limit": 10}))
		if err != nil || len(got) != 40 {
			t.Error(len(got), err)
		}
	})
}

// TestServers is P9.
func TestServers(t *testing.T) {
	items := stactest.Generate("made", 750)
	for name, o := range map[string]stactest.Options{
		"get only": {NoPost: true}, "merge": {Paging: stactest.ByMerge}, "header": {Paging: stactest.ByHeader}, "no search": {NoSearch: true},
	} {
		t.Run(name, func(t *testing.T) {
			o.Items = items
			s := stactest.Start(t, o)
			got, _, _, err := read(t, streamtest.New(t), module(t, "stac.ingest"), quick(map[string]any{"catalog_url": s.URL, "collection_id": "made", "limit": 100}))
			if err != nil || len(got) != 750 || len(slices.Compact(slices.Sorted(slices.Values(idsOf(t, got))))) != 750 {
				t.Error(len(got), err)
			}
		})
	}
}

// TestResume goes on at every cursor, and fetches at most one page again.
func TestResume(t *testing.T) {
	for name, paging := range map[string]stactest.Paging{"body": stactest.ByMethod, "merge": stactest.ByMerge, "header": stactest.ByHeader, "get": stactest.ByGET} {
		t.Run(name, func(t *testing.T) {
			s := stactest.Start(t, stactest.Options{Items: stactest.Generate("made", 95), Overlap: 1, Paging: paging})
			m := module(t, "stac.ingest")
			config := quick(map[string]any{"catalog_url": s.URL, "collection_id": "made", "limit": 10})
			all, cursors, _, err := read(t, streamtest.New(t), m, config)
			if err != nil || len(all) != 95 || len(cursors) != 10 {
				t.Fatal(len(all), len(cursors), err)
			}
			for i, c := range cursors {
				r := streamtest.New(t)
				r.Env.Cursor = c
				before := s.Count("search")
				rest, _, _, err := read(t, r, m, config)
				done := min(10*(i+1), 95)
				if err != nil || !slices.Equal(rest, all[done:]) || s.Count("search")-before != max(9-i, 0) {
					t.Errorf("cursor %d: %d items, %d searches, %v", i, len(rest), s.Count("search")-before, err)
				}
			}
		})
	}
}

// TestFailingPage has a page that never comes: what came before stays, the step goes on.
func TestFailingPage(t *testing.T) {
	s := stactest.Start(t, stactest.Options{Items: stactest.Generate("made", 50), Faults: []stactest.Fault{{Kind: "search", Page: 3, Status: 500, Times: -1}}})
	r := streamtest.New(t)
	got, _, outputs, err := read(t, r, module(t, "stac.ingest"), quick(map[string]any{"catalog_url": s.URL, "collection_id": "made", "limit": 10}))
	f := r.Failures()
	if err != nil || len(got) != 20 || len(f) != 1 || f[0].Context.Status != 500 || f[0].Context.Attempt != 5 || f[0].Type != stream.NetworkError || outputs["failed"] != int64(1) {
		t.Errorf("%d items, %+v, %v", len(got), f, err)
	}
	s = stactest.Start(t, stactest.Options{Items: stactest.Generate("made", 50), Faults: []stactest.Fault{{Kind: "search", Status: 500, Times: -1}}})
	got, _, _, err = read(t, streamtest.New(t), module(t, "stac.ingest"), quick(map[string]any{"catalog_url": s.URL, "collection_id": "made"}))
	if len(got) != 0 || typeOf(err) != stream.ModuleException || !strings.Contains(err.Error(), "500") {
		t.Errorf("no page at all: %v", err)
	}
}

// TestIDs fetches by id, in chunks, with and without a search, and from another step's items.
func TestIDs(t *testing.T) {
	made := stactest.Generate("made", 250)
	var wanted []any
	var in []*stream.Item
	for i := range 230 {
		wanted = append(wanted, fmt.Sprintf("item-%05d", i+1))
		in = append(in, streamtest.Item(t, fmt.Sprintf(`{"id":"item-%05d","collection":"made"}`, i+1)))
	}
	wanted = append(wanted, "nowhere")
	in = append(in, streamtest.Item(t, `{"id":"nowhere","collection":"made"}`), streamtest.Item(t, `{"no":"id"}`))
	for name, o := range map[string]stactest.Options{"search": {}, "no search": {NoSearch: true}} {
		t.Run(name, func(t *testing.T) {
			o.Items = made
			s := stactest.Start(t, o)
			r := streamtest.New(t)
			got, _, _, err := read(t, r, module(t, "stac.ingest"), quick(map[string]any{"catalog_url": s.URL, "collection_id": "made", "ids": wanted}))
			if f := r.Failures(); err != nil || len(got) != 230 || len(f) != 1 || f[0].Item != "nowhere" {
				t.Errorf("%d items, %v, %v", len(got), f, err)
			}
			r = streamtest.New(t)
			got, cursors, _, err := read(t, r, module(t, "stac.ingest"), quick(map[string]any{"catalog_url": s.URL}), in...)
			if f := r.Failures(); err != nil || len(got) != 230 || len(f) != 2 || len(cursors) != 0 {
				t.Errorf("hand-off: %d items, %v, %v", len(got), f, err)
			}
			if name == "search" && s.Count("search") != 6 {
				t.Errorf("%d searches for two times 231 ids", s.Count("search"))
			}
		})
	}
}

// TestConditions sends both vocabularies.
func TestConditions(t *testing.T) {
	s := stactest.Start(t, stactest.Options{Items: stactest.Generate("made", 300)})
	m := module(t, "stac.ingest")
	for name, tt := range map[string]struct {
		config map[string]any
		want   int
	}{
		"bbox":             {map[string]any{"bbox": []any{-175, 0, -166, 20}}, 10},
		"filters.spatial":  {map[string]any{"filters": map[string]any{"spatial": []any{-175, 0, -166, 20}}}, 10},
		"datetime":         {map[string]any{"datetime": "2020-01-01/2020-01-10"}, 10},
		"month":            {map[string]any{"datetime": "2020-02"}, 28},
		"filters.temporal": {map[string]any{"filters": map[string]any{"temporal": map[string]any{"start": "2020-01-01", "end": "2020-01-10"}}}, 10},
		"max_items":        {map[string]any{"max_items": 25, "limit": 10}, 25},
		"one":              {map[string]any{"max_items": 1}, 1},
		"split":            {map[string]any{"split_at": 40, "datetime": "2020-01-01/2020-12-31"}, 300},
		"split by extent":  {map[string]any{"split_at": 100}, 300},
	} {
		t.Run(name, func(t *testing.T) {
			tt.config["catalog_url"], tt.config["collection_id"] = s.URL, "made"
			got, _, _, err := read(t, streamtest.New(t), m, quick(tt.config))
			if err != nil || len(got) != tt.want {
				t.Errorf("%d items, want %d, %v", len(got), tt.want, err)
			}
		})
	}
}

// TestSample fetches no more pages than a small run needs.
func TestSample(t *testing.T) {
	s := stactest.Start(t, stactest.Options{Items: stactest.Generate("made", 300)})
	got, _, _, err := read(t, streamtest.New(t), module(t, "stac.ingest"), quick(map[string]any{"catalog_url": s.URL, "collection_id": "made", "limit": 10, "max_items": 20}))
	if err != nil || len(got) != 20 || s.Count("search") != 2 {
		t.Errorf("%d items, %d searches, %v", len(got), s.Count("search"), err)
	}
}

// TestSplitResume goes on in the middle of a divided search.
func TestSplitResume(t *testing.T) {
	s := stactest.Start(t, stactest.Options{Items: stactest.Generate("made", 300)})
	m := module(t, "stac.ingest")
	config := quick(map[string]any{"catalog_url": s.URL, "collection_id": "made", "split_at": 40, "limit": 10, "datetime": "2020-01-01/2020-12-31"})
	r := streamtest.New(t)
	all, cursors, _, err := read(t, r, m, config)
	if err != nil || len(all) != 300 || len(cursors) < 30 {
		t.Fatal(len(all), len(cursors), err)
	}
	r.Env.Cursor = cursors[17]
	rest, _, _, err := read(t, r, m, config)
	var c cursor
	if err := json.Unmarshal(cursors[17], &c); err != nil {
		t.Fatal(err)
	}
	if err != nil || !slices.Equal(rest, all[c.Items:]) {
		t.Errorf("%d of %d items, %v", len(rest), 300-c.Items, err)
	}
}

// TestPartial marks what `fields` has left incomplete.
func TestPartial(t *testing.T) {
	s := stactest.Start(t, stactest.Options{Items: stactest.Generate("made", 3)})
	got, _, _, err := read(t, streamtest.New(t), module(t, "stac.ingest"), quick(map[string]any{"catalog_url": s.URL, "collection_id": "made", "fields": "id,properties,-assets"}))
	if err != nil || len(got) != 3 || !strings.Contains(got[0], `"stepwell:partial":true`) || strings.Contains(got[0], "geometry") {
		t.Error(got, err)
	}
}

// TestWrongConfig has every mistake told before a segment begins.
func TestWrongConfig(t *testing.T) {
	s := stactest.Start(t, stactest.Options{Items: stactest.Generate("made", 3)})
	m := module(t, "stac.ingest")
	for name, tt := range map[string]struct {
		config map[string]any
		want   string
	}{
		"twice":          {map[string]any{"source": s.URL, "bbox": []any{0, 0, 1, 1}, "filters": map[string]any{"spatial": []any{0, 0, 1, 1}}}, "bbox and filters.spatial are both given"},
		"two sources":    {map[string]any{"source": s.URL, "catalog_url": s.URL}, "source and catalog_url are both given"},
		"box":            {map[string]any{"source": s.URL, "bbox": []any{0, 1, 2}}, "3 numbers"},
		"datetime":       {map[string]any{"source": s.URL, "datetime": "yesterday"}, "neither a time"},
		"backwards":      {map[string]any{"source": s.URL, "datetime": "2024-02-01/2024-01-01"}, "neither a time"},
		"file and query": {map[string]any{"source_file": "x.json", "query": map[string]any{"a": 1}}, "query is for APIs"},
		"sortby":         {map[string]any{"source": s.URL, "sortby": []any{3.5}}, "sortby"},
	} {
		t.Run(name, func(t *testing.T) {
			errs := m.Check(tt.config)
			if len(errs) == 0 || !strings.Contains(fmt.Sprint(errs), tt.want) {
				t.Errorf("%v, want %q", errs, tt.want)
			}
		})
	}
	if errs := m.Check(map[string]any{"source": "{{ params.api }}", "datetime": "{{ params.when }}"}); len(errs) > 0 {
		t.Error("templates are checked too early: ", errs)
	}
	for name, tt := range map[string]struct {
		config map[string]any
		want   string
	}{
		"no collection": {map[string]any{"source": s.URL, "collection_id": "mead"}, "mead does not exist"},
		"nothing":       {map[string]any{}, "nothing to read"},
		"a collection":  {map[string]any{"source": itemsLink(t)}, "is the collection c of an API"},
		"no URL":        {map[string]any{"mode": "api", "source": "items"}, "not a URL"},
	} {
		_, err := streamtest.New(t).Open(m, quick(tt.config))
		if typeOf(err) != stream.ConfigurationError || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// itemsLink serves the collection document of an API.
func itemsLink(t testing.TB) string {
	t.Helper()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(`{"type":"Collection","id":"c","links":[{"rel":"items","href":"items"}]}`)) //nolint:errcheck // the client may have left
	}))
	t.Cleanup(h.Close)
	return h.URL
}
