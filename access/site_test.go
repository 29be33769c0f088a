package access_test

import (
	"net/http/httptest"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
)

// A request is the server's own when it names it by an address, by localhost or by one of its names, and no web page
// elsewhere has made a browser send it.
func TestSite(t *testing.T) {
	site := access.Site{Hosts: []string{"flows.example.org"}, Origins: []string{"https://ui.example.org"}}
	for _, c := range []struct {
		host, origin, fetch string
		ok                  bool
	}{
		{"127.0.0.1:8010", "", "", true}, {"[::1]:8010", "", "", true}, {"::1", "", "", true}, {"10.1.2.3", "", "", true},
		{"localhost", "", "none", true}, {"Flows.Example.org.:443", "", "same-origin", true},
		{"evil.example:8010", "", "", false}, {"", "", "", false}, {"flows.example.org.evil.example", "", "", false},
		{"127.0.0.1:8010", "https://evil.example", "", false}, {"127.0.0.1:8010", "null", "", false},
		{"127.0.0.1:8010", "http://127.0.0.1:9999", "", false}, {"127.0.0.1:8010", "http://127.0.0.1:8010", "", true},
		{"127.0.0.1:8010", "https://ui.example.org", "cross-site", true}, {"127.0.0.1:8010", "", "cross-site", false},
		{"127.0.0.1:8010", "", "same-site", false}, {"evil.example", "http://evil.example", "same-origin", false},
	} {
		r := httptest.NewRequest("POST", "/x", nil)
		r.Host = c.host
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		if c.fetch != "" {
			r.Header.Set("Sec-Fetch-Site", c.fetch)
		}
		if err := site.Check(r); (err == nil) != c.ok || err != nil && stepwell.CodeOf(err) != stepwell.CodeForbidden {
			t.Errorf("host %q, origin %q, fetch %q: %v", c.host, c.origin, c.fetch, err)
		}
	}
}
