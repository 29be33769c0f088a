package app_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stac/stactest"
)

const discoverDoc = `
name: collections
settings:
  default_concurrency: {concurrency: @PARALLEL@}
  output_summary: summary.json
steps:
  - id: discover
    module: stac.discovery
    config: {catalog_url: "@URL@", collection_ids: @IDS@, rate_limit: 0}
  - id: ingest
    module: stac.ingest
    depends_on: [discover]
    config: {limit: 10, rate_limit: 0, retry: {base: 5ms, max: 20ms}}
  - {id: output, module: stac.output, depends_on: [ingest], config: {format: ndjson, base_dir: out}}
`

// collectionsServer serves pages of /collections, and items of some of them, of which it lets so many collections be read at
// once as can be.
type collectionsServer struct {
	items   *stactest.Server
	landing json.RawMessage   // none: the items' own
	pages   []json.RawMessage // of /collections; none: the items' own
	base    string

	mu    sync.Mutex
	at    map[string]int // searches under way by collection
	most  int            // collections at once
	hold  int            // searches wait until so many collections are at it
	ready chan struct{}
}

func (c *collectionsServer) start(t *testing.T, hold int) {
	c.at, c.hold, c.ready = map[string]int{}, hold, make(chan struct{})
	h := httptest.NewServer(c)
	t.Cleanup(h.Close)
	c.base = h.URL
}

func (c *collectionsServer) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	switch {
	case q.URL.Path == "/" && c.landing != nil:
		w.Write(bytes.ReplaceAll(c.landing, []byte("https://emc.spacebel.be"), []byte(c.base))) //nolint:errcheck // the client may have left
	case q.URL.Path == "/collections" && c.pages != nil:
		c.page(w, len(q.URL.Query().Get("page"))) // "", "x", "xx" …
	case q.URL.Path == "/search":
		body, err := io.ReadAll(q.Body)
		var s struct{ Collections []string }
		if err != nil || json.Unmarshal(body, &s) != nil || len(s.Collections) != 1 {
			http.Error(w, "a search of one collection was expected", http.StatusBadRequest)
			return
		}
		q.Body = io.NopCloser(bytes.NewReader(body))
		c.enter(s.Collections[0])
		defer c.leave(s.Collections[0])
		c.items.ServeHTTP(w, q)
	default:
		c.items.ServeHTTP(w, q)
	}
}

func (c *collectionsServer) enter(id string) {
	c.mu.Lock()
	c.at[id]++
	c.most = max(c.most, len(c.at))
	if c.most >= c.hold && c.hold > 0 {
		c.hold = 0
		close(c.ready)
	}
	c.mu.Unlock()
	select {
	case <-c.ready:
	case <-time.After(30 * time.Second): // they will not be so many
	}
}

func (c *collectionsServer) leave(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at[id]--; c.at[id] == 0 {
		delete(c.at, id)
	}
}

// page is a recorded page as it is but for its next link, which is made for this server.
func (c *collectionsServer) page(w http.ResponseWriter, at int) {
	var page map[string]any
	if err := json.Unmarshal(c.pages[at], &page); err != nil {
		panic(err)
	}
	links := []any{map[string]any{"rel": "self", "href": c.base + "/collections"}}
	if at < len(c.pages)-1 {
		links = append(links, map[string]any{"rel": "next", "href": c.base + "/collections?page=" + strings.Repeat("x", at+1)})
	}
	page["links"] = links
	json.NewEncoder(w).Encode(page) //nolint:errcheck // the client may have left
}

// exchanges are the bodies of recorded answers to URLs that begin so, in order.
func exchanges(t *testing.T, prefix string) (bodies []json.RawMessage) {
	t.Helper()
	f, err := os.Open(recorded(t, "api-recordings/pystac-client-exchanges.jsonl"))
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
			bodies = append(bodies, x.Response.Body)
		}
	}
	return bodies
}

// TestP10 finds five collections on nine recorded pages of them and reads them at the same time; one always answers 500.
func TestP10(t *testing.T) {
	c := &collectionsServer{landing: exchanges(t, "https://emc.spacebel.be/")[0], pages: exchanges(t, "https://emc.spacebel.be/collections?")}
	if len(c.pages) != 9 {
		t.Fatalf("%d recorded pages", len(c.pages))
	}
	testP10(t, c, []string{"EOP:ESA:Sentinel-6", "EOP:ESA:Sentinel-5P", "F-TCC", "L1B_Wind_Products", "CryoSat.products"}, 5)
}

// TestP10Small is P10 on generated collections, two at a time.
func TestP10Small(t *testing.T) {
	testP10(t, &collectionsServer{}, []string{"a", "b", "c", "d", "e"}, 2)
}

func testP10(t *testing.T, c *collectionsServer, chosen []string, parallel int) {
	var made []json.RawMessage
	for _, id := range chosen {
		made = append(made, stactest.Generate(id, 40)...)
	}
	broken := chosen[3]
	var err error
	c.items, err = stactest.New(stactest.Options{Items: made, CollectionPage: 2, Faults: []stactest.Fault{{Kind: "search", Collection: broken, Status: 500, Times: -1}}})
	if err != nil {
		t.Fatal(err)
	}
	c.start(t, parallel)
	wanted, err := json.Marshal(chosen)
	if err != nil {
		t.Fatal(err)
	}
	r := newStacRig(t)
	o := r.run(discoverDoc, "URL", c.base, "IDS", string(wanted), "PARALLEL", fmt.Sprint(parallel))
	if o.status != stepwell.ExecutionFailed || o.failure == nil || !strings.Contains(o.failure.Message, "500") {
		t.Errorf("%v: %+v", o.status, o.failure)
	}
	if c.most != parallel {
		t.Errorf("%d collections at once, want %d", c.most, parallel)
	}
	if o.count("discover", "count") != 5 {
		t.Errorf("discover: %s", o.steps["discover"].Output)
	}
	var summary struct {
		Success  bool
		Status   string
		Segments []struct{ Segment, Collection, Status, Error string }
	}
	if err := json.Unmarshal([]byte(r.read("summary.json")), &summary); err != nil {
		t.Fatal(err)
	}
	complete := 0
	for _, s := range summary.Segments {
		switch {
		case s.Segment == "discover":
		case s.Collection == broken && s.Status == "failed" && strings.Contains(s.Error, "500"):
			broken = ""
		case s.Status == "completed" && slices.Contains(chosen, s.Collection):
			complete++
		}
	}
	if summary.Success || summary.Status != "failed" || complete != 4 || broken != "" {
		t.Errorf("summary: %s", r.read("summary.json"))
	}
	total := 0
	for _, name := range r.names("out") {
		if strings.HasSuffix(name, ".ndjson") {
			n := len(ids(t, r.lines("out/"+name)))
			total += n
			if n != 40 {
				t.Errorf("%s has %d items", name, n)
			}
		}
	}
	if total != 160 {
		t.Errorf("%d items in %v", total, r.names("out"))
	}
}
