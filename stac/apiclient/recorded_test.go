package apiclient

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
)

// recording is one recorded exchange.
type recording struct {
	Request struct {
		Method, URI string
		Body        json.RawMessage
	}
	Response struct {
		Status int
		Body   json.RawMessage
	}
}

func recordings(t testing.TB) (out []recording) {
	t.Helper()
	f, err := os.Open(shared(t, "api-recordings/pystac-client-exchanges.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var r recording
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// replay answers as one recorded host did, under a URL of its own.
func replay(t testing.TB, host string) string {
	t.Helper()
	all := recordings(t)
	var base string
	base = newHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		for _, x := range all {
			at, ok := strings.CutPrefix(x.Request.URI, "https://"+host)
			if ok && x.Request.Method == r.Method && (at == r.URL.String() || at == "" && r.URL.Path == "/") && sameJSON(x.Request.Body, body) {
				w.WriteHeader(x.Response.Status)
				w.Write(bytes.ReplaceAll(x.Response.Body, []byte("https://"+host), []byte(base))) //nolint:errcheck // the client may have left
				return
			}
		}
		http.NotFound(w, r)
	})
	return base
}

func sameJSON(a, b []byte) bool {
	if len(bytes.TrimSpace(b)) == 0 {
		return len(a) == 0 || string(a) == "null"
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// TestRecordedLandings reads the landing pages of seven real servers.
func TestRecordedLandings(t *testing.T) {
	for at, want := range map[string]struct{ post, get, data string }{
		"earth-search.aws.element84.com/v1":            {"/v1/search", "/v1/search", "/v1/collections"},
		"earth-search.aws.element84.com/v0":            {"", "/v0/search", ""},
		"planetarycomputer.microsoft.com/api/stac/v1/": {"/api/stac/v1/search", "/api/stac/v1/search", "/api/stac/v1/collections"},
		"emc.spacebel.be/":                             {"/search", "/search", "/collections"},
		"stac.sage.uvt.ro/":                            {"/search", "/search", "/collections"},
		"stac.eoapi.dev/":                              {"/search", "/search", "/collections"},
		"paituli.csc.fi/geoserver/ogc/stac/v1":         {"/geoserver/ogc/stac/v1/search", "/geoserver/ogc/stac/v1/search", "/geoserver/ogc/stac/v1/collections"},
	} {
		host, path, _ := strings.Cut(at, "/")
		base := replay(t, host)
		c := client(t, base+"/"+path, nil)
		l, err := c.Landing(t.Context())
		if err != nil {
			t.Errorf("%s: %v", at, err)
			continue
		}
		trim := func(text string) string {
			text, _, _ = strings.Cut(strings.TrimPrefix(text, base), "?")
			return text
		}
		if post, get, data := trim(c.search(l, "POST")), trim(c.search(l, "GET")), trim(c.data(l)); post != want.post || get != want.get || data != want.data {
			t.Errorf("%s: %q %q %q; classes %v", at, post, get, data, l.Classes)
		}
	}
}

// TestRecordedPages follows the recorded pages of a search by POST, whose links carry the whole body.
func TestRecordedPages(t *testing.T) {
	c := client(t, replay(t, "planetarycomputer.microsoft.com")+"/api/stac/v1/", nil)
	p := begin(t, c, Search{Collections: []string{"naip"}, Limit: 10})
	total := 0
	for range 3 {
		page, err := p.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		total += len(page.Features)
	}
	if total != 30 {
		t.Errorf("%d items of three pages", total)
	}
	if _, err := c.Collection(t.Context(), "naip"); err != nil {
		t.Error(err)
	}
	if _, _, err := c.Item(t.Context(), "aster-l1t", "for-sure-not-a-real-id"); StatusOf(err) != 404 {
		t.Error(err)
	}
}
