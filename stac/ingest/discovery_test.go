package ingest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stepwell/stepwell/stac/stactest"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/streamtest"
)

// recorded are the bodies of recorded exchanges whose URL begins so, in order.
func recorded(t *testing.T, prefix string) (bodies []json.RawMessage) {
	t.Helper()
	f, err := os.Open(shared(t, "api-recordings/pystac-client-exchanges.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var x struct {
			Request  struct{ URI string }
			Response struct{ Body json.RawMessage }
		}
		if err := json.Unmarshal(in.Bytes(), &x); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(x.Request.URI, prefix) {
			bodies = append(bodies, bytes.ReplaceAll(x.Response.Body, []byte("https://emc.spacebel.be"), []byte("{base}")))
		}
	}
	return bodies
}

// spacebel serves the nine recorded pages of /collections one behind the other, as they are but for their
// next links, with items of five of the collections behind them.
func spacebel(t *testing.T, items *stactest.Server) string {
	t.Helper()
	landing := recorded(t, "https://emc.spacebel.be/")[0]
	pages := recorded(t, "https://emc.spacebel.be/collections?")
	if len(pages) != 9 {
		t.Fatalf("%d recorded pages", len(pages))
	}
	var base string
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := landing
		switch {
		case r.URL.Path == "/collections":
			at := len(r.URL.Query().Get("page")) // "", "x", "xx" …
			var page map[string]any
			if err := json.Unmarshal(pages[at], &page); err != nil {
				panic(err)
			}
			page["links"] = []any{map[string]any{"rel": "self", "href": "{base}/collections"}}
			if at < 8 {
				page["links"] = append(page["links"].([]any), map[string]any{"rel": "next", "href": "{base}/collections?page=" + strings.Repeat("x", at+1)})
			}
			raw, err := json.Marshal(page)
			if err != nil {
				panic(err)
			}
			body = raw
		case r.URL.Path != "/":
			items.ServeHTTP(w, r)
			return
		}
		w.Write(bytes.ReplaceAll(body, []byte("{base}"), []byte(base))) //nolint:errcheck // the client may have left
	}))
	t.Cleanup(h.Close)
	base = h.URL
	return base
}

// TestFanOut is P10: nine pages of collections, five of them read at once, one of which always fails.
func TestFanOut(t *testing.T) {
	chosen := []string{"EOP:ESA:Sentinel-6", "EOP:ESA:Sentinel-5P", "F-TCC", "L1B_Wind_Products", "CryoSat.products"}
	var made []json.RawMessage
	for _, id := range chosen {
		made = append(made, stactest.Generate(id, 40)...)
	}
	items, err := stactest.New(stactest.Options{Items: made, Faults: []stactest.Fault{{Kind: "search", Collection: chosen[3], Status: 500, Times: -1}}})
	if err != nil {
		t.Fatal(err)
	}
	url := spacebel(t, items)
	all, _, outputs, err := read(t, streamtest.New(t), module(t, "stac.discovery"), quick(map[string]any{"catalog_url": url}))
	if err != nil || len(all) != 47 || len(outputs["collections"].([]any)) != 47 {
		t.Fatalf("%d collections, %v", len(all), err)
	}
	wanted := []any{}
	for _, id := range chosen {
		wanted = append(wanted, id[:len(id)-1]+"?")
	}
	_, _, outputs, err = read(t, streamtest.New(t), module(t, "stac.discovery"), quick(map[string]any{"catalog_url": url, "collection_ids": wanted}))
	found := outputs["collections"].([]any)
	if err != nil || len(found) != 5 {
		t.Fatalf("%d collections, %v", len(found), err)
	}
	m := module(t, "stac.ingest")
	var wg sync.WaitGroup
	counts, errs := make([]int, 5), make([]error, 5)
	for i, c := range found {
		wg.Go(func() {
			r := streamtest.New(t)
			r.Env.Collection = c.(map[string]any)
			got, _, err := r.Read(m, quick(map[string]any{"limit": 10, "concurrency": 2}))
			counts[i], errs[i] = len(got), err
		})
	}
	wg.Wait()
	good, bad := 0, 0
	for i := range found {
		switch {
		case errs[i] == nil && counts[i] == 40:
			good++
		case typeOf(errs[i]) == stream.ModuleException && counts[i] == 0 && strings.Contains(errs[i].Error(), "500"):
			bad++
		}
	}
	if good != 4 || bad != 1 {
		t.Errorf("%d complete, %d failed: %v %v", good, bad, counts, errs)
	}
	if items.Most() > 10 {
		t.Errorf("%d requests at once", items.Most())
	}
}

// TestDiscovery lists collections of generated servers.
func TestDiscovery(t *testing.T) {
	var made []json.RawMessage
	for _, id := range []string{"MODIS_1", "MODIS_2", "landsat", "odd/name"} {
		made = append(made, stactest.Generate(id, 1)...)
	}
	m := module(t, "stac.discovery")
	for name, tt := range map[string]struct {
		o        stactest.Options
		config   map[string]any
		want     []string
		failures int
	}{
		"all":        {want: []string{"MODIS_1", "MODIS_2", "landsat", "odd/name"}},
		"pages":      {o: stactest.Options{CollectionPage: 1}, want: []string{"MODIS_1", "MODIS_2", "landsat", "odd/name"}},
		"children":   {o: stactest.Options{NoList: true}, want: []string{"MODIS_1", "MODIS_2", "landsat", "odd/name"}},
		"glob":       {config: map[string]any{"collection_ids": []any{"MODIS_*"}}, want: []string{"MODIS_1", "MODIS_2"}},
		"by name":    {config: map[string]any{"collection_ids": []any{"odd/name", "nowhere"}}, want: []string{"odd/name"}, failures: 1},
		"first two":  {config: map[string]any{"max_collections": 2}, want: []string{"MODIS_1", "MODIS_2"}},
		"time":       {config: map[string]any{"filters": map[string]any{"temporal": map[string]any{"start": "2031-01-01"}}}},
		"none":       {config: map[string]any{"collection_ids": []any{"no*"}}},
		"later page": {o: stactest.Options{CollectionPage: 2, Faults: []stactest.Fault{{Kind: "collections", Nth: 2, Status: 400, Times: -1}}}, want: []string{"MODIS_1", "MODIS_2"}, failures: 1},
	} {
		t.Run(name, func(t *testing.T) {
			tt.o.Items = made
			s := stactest.Start(t, tt.o)
			if tt.config == nil {
				tt.config = map[string]any{}
			}
			tt.config["catalog_url"] = s.URL
			r := streamtest.New(t)
			got, _, outputs, err := read(t, r, m, quick(tt.config))
			if ids := idsOf(t, got); err != nil || !slices.Equal(ids, tt.want) && len(ids)+len(tt.want) > 0 {
				t.Errorf("%v, want %v, %v", ids, tt.want, err)
			}
			if len(outputs["collections"].([]any)) != len(tt.want) || len(r.Failures()) != tt.failures {
				t.Errorf("outputs %v, failures %v", outputs, r.Failures())
			}
			if len(tt.want) == 0 && !strings.Contains(strings.Join(r.Lines(), ""), "no collection was found") {
				t.Errorf("no warning: %q", r.Lines())
			}
		})
	}
	s := stactest.Start(t, stactest.Options{Items: made, Faults: []stactest.Fault{{Kind: "collections", Status: 503, Times: -1}}})
	if _, _, _, err := read(t, streamtest.New(t), m, quick(map[string]any{"catalog_url": s.URL})); typeOf(err) != stream.ModuleException {
		t.Errorf("a list that never comes: %v", err)
	}
	if errs := m.Check(map[string]any{}); len(errs) != 1 {
		t.Errorf("without a catalog: %v", errs)
	}
}

// TestStaticDiscovery walks a catalog of files, and reads each collection behind it.
func TestStaticDiscovery(t *testing.T) {
	r := streamtest.New(t)
	catalog(t, r.Env.Dir)
	got, _, outputs, err := read(t, r, module(t, "stac.discovery"), map[string]any{"catalog_url": "cat"})
	found := outputs["collections"].([]any)
	if err != nil || !slices.Equal(idsOf(t, got), []string{"a", "b"}) || len(found) != 2 || len(r.Failures()) != 1 {
		t.Fatal(idsOf(t, got), found, r.Failures(), err)
	}
	for i, want := range [][]string{{"a1", "a2"}, {"b1"}} {
		r.Env.Collection = found[i].(map[string]any)
		got, _, _, err := read(t, r, module(t, "stac.ingest"), map[string]any{})
		if ids := idsOf(t, got); err != nil || !slices.Equal(ids, want) {
			t.Errorf("%v, want %v, %v", ids, want, err)
		}
	}
}
