package app_test

import (
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/app"
)

// ask sends a request and does not follow redirects.
func ask(t *testing.T, method, address, body string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

// TestBasePath: with and without the path, everything that the server tells of addresses has it; and a session outlives a restart.
func TestBasePath(t *testing.T) {
	db := filepath.Join(t.TempDir(), "base.db")
	below := func(o *app.ServerOptions) { o.BasePath = "/tools/sw" }
	s := serve(t, db, newGate(), below)
	root := "http://" + s.Addr().String()
	if s.URL() != root+"/tools/sw" {
		t.Errorf("the server is at %s", s.URL())
	}
	for path, status := range map[string]int{"/tools/sw/api/v1/health": 200, "/api/v1/health": 200, "/tools/sw/healthz": 200, "/healthz": 200, "/tools/swx/healthz": 404, "/tools/sw/tools/sw/healthz": 404,
		"/tools/sw/openapi.json": 200, "/tools/sw/docs": 200, "/tools/sw/docs/page.js": 200, "/tools/sw/..%2fhealthz": 404} {
		if resp, _ := ask(t, "GET", root+path, ""); resp.StatusCode != status {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
	for path, want := range map[string]string{"/tools/sw": "/tools/sw/", "/tools/sw/": "/tools/sw/docs", "/": "/tools/sw/docs"} {
		if resp, _ := ask(t, "GET", root+path, "", "Accept", "text/html"); resp.Header.Get("Location") != want {
			t.Errorf("%s leads to %q", path, resp.Header.Get("Location"))
		}
	}
	if _, page := ask(t, "GET", root+"/tools/sw/docs", ""); strings.Contains(page, `"/docs`) || strings.Contains(page, `"/openapi`) {
		t.Error("the page has addresses without the path")
	}
	resp, text := ask(t, "POST", s.URL()+"/api/v1/pipelines", `{"document": {"name": "p", "steps": [{"id": "a", "action": "util.noop"}]}}`)
	location := resp.Header.Get("Location")
	if got, _ := ask(t, "GET", root+location, ""); resp.StatusCode != 201 || !strings.HasPrefix(location, "/tools/sw/api/v1/pipelines/") || got.StatusCode != 200 {
		t.Errorf("%d %s: it is at %q", resp.StatusCode, text, location)
	}
	_, token, err := access.NewKeys(s.Store, nil).Create(t.Context(), access.NewKey{Name: "ada", Role: access.Admin, By: "test"})
	if err != nil {
		t.Fatal(err)
	}
	var cookie *http.Cookie
	s.until("the key is known", func() bool {
		resp, _ := ask(t, "POST", s.URL()+"/api/v1/session", `{"token": "`+token+`"}`)
		if list := resp.Cookies(); resp.StatusCode == 200 && len(list) == 1 {
			cookie = list[0]
		}
		return cookie != nil
	})
	if cookie.Path != "/tools/sw/" || !cookie.HttpOnly {
		t.Errorf("the cookie is %v", cookie)
	}
	s.Drain()
	s.ended()
	again := serve(t, db, newGate(), below)
	u, err := url.Parse(again.URL())
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/api/v1/me", u.Path + "/api/v1/me"} {
		if resp, text := ask(t, "GET", "http://"+u.Host+path, "", "Cookie", cookie.Name+"="+cookie.Value); resp.StatusCode != 200 {
			t.Errorf("after a restart %s is answered %d %s", path, resp.StatusCode, text)
		}
	}
	if resp, _ := ask(t, "GET", again.URL()+"/api/v1/me", ""); resp.StatusCode != 401 {
		t.Errorf("without the cookie: %d", resp.StatusCode)
	}
	again.Drain()
	again.ended()
}
