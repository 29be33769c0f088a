package apiclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stepwell/stepwell/stac/stactest"
)

func TestInterval(t *testing.T) {
	for text, want := range map[string]string{
		"2024-01-31T12:00:00Z":      "2024-01-31T12:00:00Z",
		"2024":                      "2024-01-01T00:00:00Z/2024-12-31T23:59:59Z",
		"2024-02":                   "2024-02-01T00:00:00Z/2024-02-29T23:59:59Z",
		"2024-01-01/2024-01-31":     "2024-01-01T00:00:00Z/2024-01-31T23:59:59Z",
		"2024-01-01/..":             "2024-01-01T00:00:00Z/..",
		"/2024-01-01T00:00:00.5Z":   "../2024-01-01T00:00:00.5Z",
		"2024-01-01T00:00:00+02:00": "2024-01-01T00:00:00+02:00",
		"../..":                     "", "": "", "2024-13": "", "2024-02-30/..": "", "now/..": "", "2024-02/2024-01": "",
	} {
		got, err := Interval(text)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, want %q, %v", text, got, want, err)
		}
	}
}

// TestGET has a search as a query, and back.
func TestGET(t *testing.T) {
	s := Search{Collections: []string{"a", "b"}, IDs: []string{"1,2"}, Bbox: []float64{-1.5, 2, 3, 4}, Datetime: "2024-01-01T00:00:00Z/..", Limit: 7,
		Query: json.RawMessage(`{"eo:cloud_cover":{"lt":10}}`), Filter: json.RawMessage(`"a = 'b&c'"`), SortBy: ParseSort([]string{"-properties.datetime", "+id"}),
		Fields: &Fields{Include: []string{"id"}, Exclude: []string{"links"}}}
	body, err := s.Body()
	if err != nil {
		t.Fatal(err)
	}
	get, err := byGET(Request{Method: "POST", URL: "https://host/search?f=json", Body: body})
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(get.URL)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"f": "json", "collections": "a,b", "ids": "1,2", "bbox": "-1.5,2,3,4", "datetime": "2024-01-01T00:00:00Z/..", "limit": "7",
		"query": `{"eo:cloud_cover":{"lt":10}}`, "filter": "a = 'b&c'", "filter-lang": "cql2-text", "sortby": "-properties.datetime,id", "fields": "id,-links"}
	for name, text := range want {
		if got := u.Query().Get(name); got != text {
			t.Errorf("%s is %q, want %q", name, got, text)
		}
	}
	if len(u.Query()) != len(want) {
		t.Errorf("%v", u.Query())
	}
	post, err := byPOST(get)
	if err != nil || post.URL != "https://host/search" || !strings.Contains(string(post.Body), `"bbox":[-1.5,2,3,4]`) || !strings.Contains(string(post.Body), `"direction":"desc"`) ||
		!strings.Contains(string(post.Body), `"query":{"eo:cloud_cover":{"lt":10}}`) {
		t.Errorf("%s, %v", post.Body, err)
	}
}

func TestFollow(t *testing.T) {
	c := client(t, "https://api.example/stac", func(o *Options) { o.Auth = Auth{Key: "the-key-of-ours", KeyQuery: "key"} })
	before := Request{Method: "POST", URL: "https://api.example/stac/search", Header: map[string]string{"A": "1"}, Body: json.RawMessage(`{"limit":10,"token":"x"}`)}
	for name, tt := range map[string]struct{ link, want string }{
		"GET href is not touched": {`{"href":"https://api.example/stac/search?b=%2F&a=1&&token=%41"}`, `{"method":"GET","href":"https://api.example/stac/search?b=%2F\u0026a=1\u0026\u0026token=%41"}`},
		"body replaces":           {`{"href":"/s","method":"post","body":{"token":"y"}}`, `{"method":"POST","href":"https://api.example/s","body":{"token":"y"}}`},
		"merge":                   {`{"href":"/s","method":"POST","merge":true,"body":{"token":"y"},"headers":{"B":["2","3"]}}`, `{"method":"POST","href":"https://api.example/s","headers":{"A":"1","B":"2, 3"},"body":{"limit":10,"token":"y"}}`},
		"http behind a proxy":     {`{"href":"http://api.example/stac/search?t=1"}`, `{"method":"GET","href":"https://api.example/stac/search?t=1"}`},
		"our key is taken out":    {`{"href":"https://api.example/s?key=the-key-of-ours&t=1"}`, `{"method":"GET","href":"https://api.example/s?t=1"}`},
	} {
		var l Link
		if err := json.Unmarshal([]byte(tt.link), &l); err != nil {
			t.Fatal(err)
		}
		got, err := c.linkRequest(before.URL, before, l)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		raw, err := json.Marshal(got)
		if err != nil || string(raw) != tt.want {
			t.Errorf("%s: %s, want %s, %v", name, raw, tt.want, err)
		}
	}
}

// TestCrawl walks a catalog with a loop in it, a hole and too much depth.
func TestCrawl(t *testing.T) {
	docs := map[string]string{
		"root.json":  `{"type":"Catalog","id":"root","links":[{"rel":"child","href":"./a/c.json"},{"rel":"child","href":"gone.json"},{"rel":"child","href":"root.json"}]}`,
		"a/c.json":   `{"type":"Collection","id":"c","links":[{"rel":"item","href":"i%201.json"},{"rel":"item","href":"../i2.json"},{"rel":"child","href":"../root.json"},{"rel":"child","href":"d.json"}]}`,
		"a/d.json":   `{"id":"d","links":[{"rel":"item","href":"i3.json"},{"rel":"child","href":"deep/0.json"}]}`,
		"wrong.json": `{"type":"FeatureCollection"}`,
	}
	crawl := Crawl{MaxDepth: 10, Fetch: func(_ context.Context, ref string) ([]byte, error) {
		var n int
		if _, err := fmt.Sscanf(ref, "a/deep/%d.json", &n); err == nil {
			return fmt.Appendf(nil, `{"type":"Catalog","id":"deep%d","links":[{"rel":"child","href":"%d.json"}]}`, n, n+1), nil
		}
		if text, ok := docs[ref]; ok {
			return []byte(text), nil
		}
		return nil, errors.New("not there")
	}}
	var got, failed []string
	for d, err := range crawl.All(t.Context(), "root.json") {
		if err != nil {
			failed = append(failed, d.Ref)
			continue
		}
		got = append(got, d.ID+":"+strings.Join(d.Items, ",")+":"+d.Parent)
	}
	want := "root:: c:a/i 1.json,i2.json:c d:a/i3.json:c deep0::c deep1::c deep2::c deep3::c deep4::c deep5::c deep6::c deep7::c"
	if strings.Join(got, " ") != want || strings.Join(failed, " ") != "a/deep/8.json gone.json" {
		t.Errorf("%q\nfailed %q", got, failed)
	}
	for d, err := range crawl.All(t.Context(), "wrong.json") {
		if err == nil || d.Ref != "" || !strings.Contains(err.Error(), "FeatureCollection") {
			t.Error(d, err)
		}
	}
}

// TestConforms takes releases, candidates and the options.
func TestConforms(t *testing.T) {
	l := &Landing{Classes: []string{"https://api.stacspec.org/v1.0.0-rc.2/item-search", "http://www.opengis.net/spec/ogcapi-features-1/1.0/conf/core"}}
	c := client(t, "https://api.example", func(o *Options) {
		o.AddConformance = []string{"collections"}
		o.RemoveConformance = []string{"https://api.stacspec.org/v1.0.0/item-search#filter"}
	})
	for class, want := range map[string]bool{"item-search": true, "collections": true, "conf/core": true, "item-search#filter": false, "search": false, "ogcapi-features": false} {
		if got := c.Conforms(l, class); got != want {
			t.Errorf("%s: %t", class, got)
		}
	}
}

// TestCursorJSON goes through JSON and back, with a server that needs all of it.
func TestCursorJSON(t *testing.T) {
	s := stactest.Start(t, stactest.Options{Items: stactest.Generate("made", 60), Overlap: 3, Paging: stactest.ByHeader})
	c := client(t, s.URL, nil)
	p := begin(t, c, Search{Collections: []string{"made"}, Limit: 10})
	total, dup := 0, 0
	for range 100 {
		page, err := p.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		total, dup = total+len(page.Features), dup+page.Duplicates
		at, ok := p.Cursor()
		if !ok {
			break
		}
		raw, err := json.Marshal(at)
		if err != nil {
			t.Fatal(err)
		}
		var back Cursor
		if err := json.Unmarshal(raw, &back); err != nil {
			t.Fatal(err)
		}
		p = c.Resume(back)
	}
	if total != 60 || dup != 15 || s.Count("search") != 6 {
		t.Errorf("%d items, %d duplicates, %d searches", total, dup, s.Count("search"))
	}
}

func TestKey(t *testing.T) {
	for text, want := range map[string]string{
		`{"id":"a","collection":"b"}`: "a|b", ` { "x" : [ {"id":"no"} , "}" ] , "id" : "q\"\\" , "collection":"c"}`: `q"\|c`,
		`{"id":1e21,"collection":null}`: "1e21|", `{"id" : 5 }`: "5|", `{}`: "|", ``: "|", `[1]`: "|", `{"id":"a`: "|", `{"id"`: "|", `{"a":1,"id":"x"`: "x|", `{"id":{"id":"z"},"collection":"c"}`: "|c",
	} {
		id, collection := Key([]byte(text))
		if id+"|"+collection != want {
			t.Errorf("%s: %s|%s, want %s", text, id, collection, want)
		}
	}
}

// FuzzKey agrees with a decoder on what is valid.
func FuzzKey(f *testing.F) {
	for _, seed := range []string{`{"id":"a","collection":"b"}`, `{"x":[{"id":"no"},"}"],"id":"q\"","collection":"c"}`, `{"id":"`, `{"a\`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		id, collection := Key(raw)
		var doc map[string]any
		if !jsontext.Value(raw).IsValid() || json.Unmarshal(raw, &doc) != nil {
			return
		}
		for name, got := range map[string]string{"id": id, "collection": collection} {
			if want, ok := doc[name].(string); ok && want != got && !strings.Contains(string(raw), `\u`) {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
	})
}

// FuzzPage reads any bytes as a page: no panic, and what is read was in it.
func FuzzPage(f *testing.F) {
	for _, seed := range []string{`{"features":[{"id":"a","collection":"c"},{"id":5}],"links":[{"rel":"next","href":"x"}],"numberMatched":2}`, `{"features":null}`, `{"context":{"matched":3},"features":[]}`, `[`, ``, `{"features":[{"id":`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := readPage(strings.NewReader(string(raw)), "features")
		if err != nil {
			if errors.Is(err, io.EOF) && len(raw) > 0 && json.Valid(raw) {
				t.Errorf("a valid text ends early: %v", err)
			}
			return
		}
		for _, feature := range d.features {
			if !strings.Contains(string(raw), string(feature.Text)) {
				t.Errorf("%q is not in the page", feature.Text)
			}
		}
	})
}
