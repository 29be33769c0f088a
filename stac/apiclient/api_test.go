package apiclient

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/stac/stactest"
)

// shared is a path of the real test data; without it the test is skipped.
func shared(t testing.TB, path string) string {
	t.Helper()
	dir := os.Getenv("STEPWELL_SHARED_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	full := filepath.Join(dir, path)
	if _, err := os.Stat(full); err != nil {
		t.Skip("left out: the test with recorded items, which are not here: " + path)
	}
	return full
}

func lines(t testing.TB, path string) []json.RawMessage {
	t.Helper()
	items, err := stactest.Lines(path)
	if err != nil {
		t.Fatal(err)
	}
	return items
}

// client talks to a server with waits that suit a test.
func client(t testing.TB, url string, change func(*Options)) *Client {
	t.Helper()
	h, err := outbound.New(outbound.Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
		Breaker: outbound.Breaker{Failures: -1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	o := Options{HTTP: h, URL: url, Retry: Retry{Base: time.Millisecond, Max: 10 * time.Millisecond}}
	if change != nil {
		change(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// drain reads a search to its end.
func drain(t testing.TB, p *Pager) (ids []string, duplicates int, warnings []string, err error) {
	t.Helper()
	for range 1000 {
		page, err := p.Next(t.Context())
		if err != nil {
			return ids, duplicates, warnings, err
		}
		if page == nil {
			return ids, duplicates, warnings, nil
		}
		duplicates += page.Duplicates
		if page.Warning != "" {
			warnings = append(warnings, page.Warning)
		}
		for _, f := range page.Features {
			ids = append(ids, f.ID)
		}
	}
	t.Fatal("no end after 1,000 pages")
	return nil, 0, nil, nil
}

func begin(t testing.TB, c *Client, s Search) *Pager {
	t.Helper()
	p, err := c.Search(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func digest(ids []string) string {
	ids = slices.Sorted(slices.Values(ids))
	sum := sha256.Sum256([]byte(strings.Join(ids, "\n")))
	return hex.EncodeToString(sum[:8])
}

// chaos is the script of stac-and-media §6, P1.
func chaos() []stactest.Fault {
	return []stactest.Fault{
		{Kind: "search", Page: 2, Status: 429, After: "2"},
		{Kind: "search", Page: 4, Status: 503, Times: 2},
		{Kind: "search", Page: 5, Reset: true},
		{Kind: "search", Page: 6, Cut: true},
	}
}

// TestChaos is P1.
func TestChaos(t *testing.T) {
	items := lines(t, shared(t, "items/planetarycomputer.microsoft.com__landsat-8-c2-l2.ndjson"))
	s := stactest.Start(t, stactest.Options{Items: items, Overlap: 1, Faults: chaos()})
	began := time.Now()
	ids, duplicates, _, err := drain(t, begin(t, client(t, s.URL, nil), Search{Collections: []string{"landsat-8-c2-l2"}, Limit: 100}))
	if err != nil {
		t.Fatal(err)
	}
	if len(ids) != 750 || duplicates != 7 || digest(ids) != "d41af95daa8a4978" {
		t.Errorf("%d items, %d duplicates, digest %s", len(ids), duplicates, digest(ids))
	}
	if n := s.Count("search"); n != 13 {
		t.Errorf("the server saw %d searches", n)
	}
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("Retry-After was not kept: %s", took)
	}
}

// TestChaosSmall is P1 on generated items.
func TestChaosSmall(t *testing.T) {
	faults := chaos()
	faults[0].After = "0"
	s := stactest.Start(t, stactest.Options{Items: stactest.Generate("made", 75), Overlap: 1, Faults: faults})
	ids, duplicates, _, err := drain(t, begin(t, client(t, s.URL, nil), Search{Collections: []string{"made"}, Limit: 10}))
	if err != nil || len(ids) != 75 || duplicates != 7 || s.Count("search") != 13 {
		t.Errorf("%d items, %d duplicates, %d searches, %v", len(ids), duplicates, s.Count("search"), err)
	}
}

// TestLinks is P8.
func TestLinks(t *testing.T) {
	made := stactest.Generate("made", 40)
	search := Search{Collections: []string{"made"}, Limit: 10}
	t.Run("same next for ever", func(t *testing.T) {
		s := stactest.Start(t, stactest.Options{Items: made, Faults: []stactest.Fault{{Kind: "search", SameNext: true, Times: -1}}})
		ids, _, _, err := drain(t, begin(t, client(t, s.URL, nil), search))
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Kind != KindLoop || s.Count("search") != 2 || len(ids) != 20 {
			t.Errorf("%d ids, %d searches, %v", len(ids), s.Count("search"), err)
		}
	})
	t.Run("same items for ever", func(t *testing.T) {
		s, err := stactest.New(stactest.Options{Items: made[:4]})
		if err != nil {
			t.Fatal(err)
		}
		h := loopServer(t, s)
		ids, dup, _, err := drain(t, begin(t, client(t, h, nil), search))
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Kind != KindLoop || len(ids) != 4 || dup != 12 {
			t.Errorf("%d ids, %d duplicates, %v", len(ids), dup, err)
		}
	})
	t.Run("another host gets no credentials", func(t *testing.T) {
		other := stactest.Start(t, stactest.Options{Items: made})
		s := stactest.Start(t, stactest.Options{Items: made, Bearer: "s3cret-token", Faults: []stactest.Fault{{Kind: "search", Page: 2, NextHost: other.URL}}})
		c := client(t, s.URL, func(o *Options) { o.Auth.Bearer = "s3cret-token"; o.Header = http.Header{"X-Tenant": {"mine"}} })
		ids, _, _, err := drain(t, begin(t, c, search))
		if err != nil || len(ids) != 40 || other.Count("search") != 2 {
			t.Fatalf("%d ids, %d searches elsewhere, %v", len(ids), other.Count("search"), err)
		}
		for _, r := range other.Requests() {
			if r.Header.Get("Authorization") != "" || r.Header.Get("X-Tenant") != "" {
				t.Error("the other host got credentials")
			}
		}
	})
	t.Run("a next of 9,000 characters goes by POST", func(t *testing.T) {
		s := stactest.Start(t, stactest.Options{Items: made, Faults: []stactest.Fault{{Kind: "search", Page: 2, NextPad: 9000}}})
		ids, _, _, err := drain(t, begin(t, client(t, s.URL, nil), search))
		if err != nil || len(ids) != 40 {
			t.Errorf("%d ids, %v", len(ids), err)
		}
	})
	t.Run("a next of 9,000 characters without POST", func(t *testing.T) {
		s := stactest.Start(t, stactest.Options{Items: made, NoPost: true, Faults: []stactest.Fault{{Kind: "search", Page: 2, NextPad: 9000}}})
		ids, _, _, err := drain(t, begin(t, client(t, s.URL, nil), search))
		if len(ids) != 20 || err == nil || !strings.Contains(err.Error(), "characters") || len(err.Error()) > 500 {
			t.Errorf("%d ids, %v", len(ids), err)
		}
	})
	t.Run("an empty page with next", func(t *testing.T) {
		s := stactest.Start(t, stactest.Options{Items: made, Faults: []stactest.Fault{{Kind: "search", Page: 2, Empty: true}, {Kind: "search", Page: 4, Empty: true}}})
		ids, _, warnings, err := drain(t, begin(t, client(t, s.URL, nil), search))
		if err != nil || len(ids) != 40 || len(warnings) != 0 {
			t.Errorf("%d ids, %q, %v", len(ids), warnings, err)
		}
		s = stactest.Start(t, stactest.Options{Items: made, Faults: []stactest.Fault{{Kind: "search", Empty: true, Times: -1}}})
		ids, _, warnings, err = drain(t, begin(t, client(t, s.URL, nil), search))
		if err != nil || len(ids) != 0 || len(warnings) != 1 || s.Count("search") != 4 {
			t.Errorf("empty for ever: %d searches, %q, %v", s.Count("search"), warnings, err)
		}
	})
}

// loopServer gives the four items of s again and again, with another href each time.
func loopServer(t testing.TB, s *stactest.Server) string {
	t.Helper()
	n := 0
	h := newHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/search" {
			s.ServeHTTP(w, r)
			return
		}
		n++
		var features []json.RawMessage
		for _, id := range s.IDs("made") {
			features = append(features, s.Item("made", id))
		}
		raw, err := json.Marshal(map[string]any{"features": features, "links": []any{map[string]any{"rel": "next", "href": "/search?n=" + strings.Repeat("1", n)}}})
		if err != nil {
			panic(err)
		}
		w.Write(raw) //nolint:errcheck // the client may have left
	})
	return h
}

// TestServers is P9: servers that page in other ways.
func TestServers(t *testing.T) {
	items := stactest.Generate("made", 750)
	for name, o := range map[string]stactest.Options{
		"get only":    {NoPost: true},
		"merge":       {Paging: stactest.ByMerge},
		"header":      {Paging: stactest.ByHeader},
		"link header": {Paging: stactest.ByLinkHead},
		"next by GET": {Paging: stactest.ByGET},
		"no search":   {NoSearch: true},
	} {
		t.Run(name, func(t *testing.T) {
			o.Items = items
			s := stactest.Start(t, o)
			ids, dup, _, err := drain(t, begin(t, client(t, s.URL, nil), Search{Collections: []string{"made"}, Limit: 100}))
			if err != nil || len(ids) != 750 || dup != 0 {
				t.Errorf("%d ids, %d duplicates, %v", len(ids), dup, err)
			}
		})
	}
}

// TestPostRefusedMidway has a server that takes the first page by POST and no other (pystac-client#846).
func TestPostRefusedMidway(t *testing.T) {
	s := stactest.Start(t, stactest.Options{Items: stactest.Generate("made", 50), Faults: []stactest.Fault{{Kind: "search", Method: "POST", Page: 2, Status: 405, Times: -1}}})
	ids, _, _, err := drain(t, begin(t, client(t, s.URL, nil), Search{Collections: []string{"made"}, Limit: 10, Datetime: "2020-01-01T00:00:00Z/.."}))
	if err != nil || len(ids) != 50 {
		t.Errorf("%d ids, %v", len(ids), err)
	}
}
