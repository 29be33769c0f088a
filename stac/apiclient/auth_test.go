package apiclient

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/stac/stactest"
)

// TestCredentials has each kind of them arrive, and none of them told.
func TestCredentials(t *testing.T) {
	const secret = "very+secret/value=="
	made := stactest.Generate("made", 25)
	for name, tt := range map[string]struct {
		server stactest.Options
		auth   Auth
	}{
		"bearer": {stactest.Options{Bearer: secret}, Auth{Bearer: secret}},
		"query":  {stactest.Options{KeyQuery: "subscription", Key: secret, Paging: stactest.ByGET}, Auth{Key: secret, KeyQuery: "subscription"}},
		"oauth":  {stactest.Options{Bearer: secret, Secret: "client-secret-value"}, Auth{TokenURL: "{base}/token", ClientID: "client", ClientSecret: "client-secret-value"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := tt.server
			o.Items = made
			s := stactest.Start(t, o)
			auth := tt.auth
			auth.TokenURL = strings.ReplaceAll(auth.TokenURL, "{base}", s.URL)
			c := client(t, s.URL, func(o *Options) { o.Auth = auth })
			p := begin(t, c, Search{Collections: []string{"made"}, Limit: 10})
			page, err := p.Next(t.Context())
			if err != nil || len(page.Features) != 10 {
				t.Fatal(err)
			}
			at, ok := p.Cursor()
			if !ok || strings.Contains(at.Next.URL+string(at.Next.Body), "secret") {
				t.Errorf("the cursor holds the secret: %+v", at.Next)
			}
			ids, _, _, err := drain(t, c.Resume(at))
			if err != nil || len(ids) != 15 {
				t.Errorf("%d ids, %v", len(ids), err)
			}
			if name == "oauth" && s.Count("token") != 1 {
				t.Errorf("%d tokens", s.Count("token"))
			}
			s.Rotate("another")
			if name == "oauth" { // the token is refused once, and fetched anew
				if _, err := c.Collection(t.Context(), "made"); err != nil || s.Count("token") != 2 {
					t.Errorf("%d tokens, %v", s.Count("token"), err)
				}
			}
		})
		t.Run(name+" wrong", func(t *testing.T) {
			s := stactest.Start(t, tt.server)
			s.Rotate("what nobody has")
			auth := tt.auth
			auth.TokenURL = strings.ReplaceAll(auth.TokenURL, "{base}", s.URL)
			if auth.ClientSecret != "" {
				auth.ClientSecret = "wrong-secret-value"
			}
			if auth.Key != "" {
				auth.Key = "wrong-" + secret
			}
			_, err := client(t, s.URL, func(o *Options) { o.Auth = auth }).Landing(t.Context())
			if StatusOf(err) != 401 || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "401 Unauthorized") {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestErrorText has status, URL and the beginning of the body in an error (pystac#1738).
func TestErrorText(t *testing.T) {
	long := strings.Repeat("x", 5000)
	s := stactest.Start(t, stactest.Options{Faults: []stactest.Fault{{Status: 400, Body: `{"description":"bad things ` + long + `"}`, Times: -1}}})
	_, err := client(t, s.URL, nil).Landing(t.Context())
	if text := err.Error(); !strings.Contains(text, "400 Bad Request") || !strings.Contains(text, s.URL) || !strings.Contains(text, "bad things") || len(text) > 700 {
		t.Error(text)
	}
	h := newHTTP(t, func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>please log in</html>")) }) //nolint:errcheck // the client may have left
	_, err = client(t, h, nil).Landing(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no JSON") || !strings.Contains(err.Error(), "please log in") {
		t.Error(err)
	}
}

// TestRetries has the table of stac-and-media §2.
func TestRetries(t *testing.T) {
	for status, times := range map[int]int{408: 5, 425: 5, 429: 5, 500: 5, 502: 5, 503: 5, 504: 5, 521: 5, 400: 1, 401: 1, 403: 1, 404: 1, 410: 1, 422: 1, 501: 1} {
		s := stactest.Start(t, stactest.Options{Faults: []stactest.Fault{{Status: status, After: "0", Times: -1}}})
		_, err := client(t, s.URL, nil).Landing(t.Context())
		if n := s.Count("landing"); n != times || StatusOf(err) != status {
			t.Errorf("%d: %d requests, %v", status, n, err)
		}
	}
	s := stactest.Start(t, stactest.Options{Faults: []stactest.Fault{{Status: 418, Times: 2}, {Status: 503, Times: 2}}})
	c := client(t, s.URL, func(o *Options) { o.Retry.Also = []int{418}; o.Retry.Never = []int{503} })
	if _, err := c.Landing(t.Context()); StatusOf(err) != 503 || s.Count("landing") != 3 {
		t.Errorf("%d requests, %v", s.Count("landing"), err)
	}
	s = stactest.Start(t, stactest.Options{Faults: []stactest.Fault{{Status: 503, Times: -1}}})
	c = client(t, s.URL, func(o *Options) { o.Retry.Budget = 2 })
	if _, err := c.Landing(t.Context()); s.Count("landing") != 3 || !strings.Contains(err.Error(), "used up") {
		t.Errorf("%d requests, %v", s.Count("landing"), err)
	}
	s = stactest.Start(t, stactest.Options{Faults: []stactest.Fault{{Status: 503, After: "3600", Times: -1}}})
	began := time.Now()
	_, err := client(t, s.URL, nil).Landing(t.Context())
	if s.Count("landing") != 1 || time.Since(began) > 20*time.Second || !strings.Contains(err.Error(), "waiting another 1h0m0s") {
		t.Errorf("%d requests, %v", s.Count("landing"), err)
	}
}

// TestMoved sends a search on to where it has moved, with its body.
func TestMoved(t *testing.T) {
	s := stactest.Start(t, stactest.Options{Items: stactest.Generate("made", 3)})
	var h string
	h = newHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			w.Write([]byte(`{"conformsTo":["https://api.stacspec.org/v1.0.0/item-search"],"links":[{"rel":"search","method":"POST","href":"/old"}]}`)) //nolint:errcheck // the client may have left
		case "/old":
			http.Redirect(w, r, h+"/search", http.StatusFound)
		default:
			s.ServeHTTP(w, r)
		}
	})
	ids, _, _, err := drain(t, begin(t, client(t, h+"/", nil), Search{Collections: []string{"made"}, IDs: []string{"item-00002"}}))
	if err != nil || len(ids) != 1 {
		t.Error(ids, err)
	}
}

// TestPageSize refuses a page that is too large, and says what to do.
func TestPageSize(t *testing.T) {
	s := stactest.Start(t, stactest.Options{Items: stactest.Generate("made", 300)})
	c := client(t, s.URL, func(o *Options) { o.MaxPage = 10_000 })
	_, _, _, err := drain(t, begin(t, c, Search{Limit: 300}))
	if err == nil || !strings.Contains(err.Error(), "larger than") || s.Count("search") != 1 {
		t.Errorf("%d searches, %v", s.Count("search"), err)
	}
}

// TestCancel ends in the middle of a wait.
func TestCancel(t *testing.T) {
	s := stactest.Start(t, stactest.Options{Faults: []stactest.Fault{{Status: 503, After: "20", Times: -1}}})
	ctx, cancel := withTimeout(t, 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := client(t, s.URL, nil).Landing(ctx); err == nil || time.Since(began) > 15*time.Second {
		t.Errorf("%s, %v", time.Since(began), err)
	}
}

// TestHang is a server that never answers.
func TestHang(t *testing.T) {
	stop := make(chan struct{})
	h := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	}))
	defer h.Close()
	defer close(stop)
	c := client(t, h.URL, func(o *Options) { o.Timeouts.FirstByte = 30 * time.Millisecond; o.Retry.Attempts = 2 })
	if _, err := c.Landing(t.Context()); err == nil || !strings.Contains(err.Error(), "no response within") || c.Retries() != 1 {
		t.Errorf("%v", err)
	}
}

// TestOverrides has the config overrule what a server says of itself (pystac-client#641).
func TestOverrides(t *testing.T) {
	s := stactest.Start(t, stactest.Options{Items: stactest.Generate("made", 12)})
	silent := newHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			w.Write([]byte(`{"type":"Catalog","id":"silent","links":[]}`)) //nolint:errcheck // the client may have left
			return
		}
		s.ServeHTTP(w, r)
	})
	search := Search{Collections: []string{"made"}, Limit: 5}
	if _, err := client(t, silent+"/", nil).Search(t.Context(), search); err == nil || !strings.Contains(err.Error(), "no STAC API") {
		t.Error(err)
	}
	for class, kind := range map[string]string{"item-search": "search", "ogcapi-features": "items"} {
		before := s.Count(kind)
		c := client(t, silent+"/", func(o *Options) { o.AddConformance = []string{class} })
		p := begin(t, c, search)
		if page, err := p.Next(t.Context()); err != nil || len(page.Features) != 5 || s.Count(kind) != before+1 {
			t.Errorf("%s: %v", class, err)
		}
	}
	before := s.Count("search")
	c := client(t, s.URL, func(o *Options) { o.Method = "GET" })
	ids, _, _, err := drain(t, begin(t, c, search))
	if err != nil || len(ids) != 12 || s.Count("search") != before+3 {
		t.Errorf("%d ids by GET, %v", len(ids), err)
	}
	for _, r := range s.Requests()[len(s.Requests())-3:] {
		if r.Method != "GET" {
			t.Errorf("%s, though GET was asked for", r.Method)
		}
	}
}
