package outbound

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
)

func TestClassOf(t *testing.T) {
	for kind, addresses := range map[string][]string{
		"":           {"1.1.1.1", "8.8.8.8", "172.32.0.1", "2606:4700::1111", "64:ff9b::808:808", "2002:808:808::1"},
		"loopback":   {"127.0.0.1", "127.255.0.9", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "::127.0.0.1"},
		"private":    {"10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fd12::1", "::ffff:10.0.0.1", "fec0::1"},
		"link-local": {"169.254.1.1", "fe80::1", "ff02::1", "224.0.0.1"},
		"metadata":   {"169.254.169.254", "100.100.100.200", "fd00:ec2::254", "168.63.129.16", "::ffff:169.254.169.254"},
		"reserved":   {"0.0.0.0", "0.1.2.3", "::", "255.255.255.255", "240.0.0.1", "192.0.2.1", "198.18.0.1", "2001:db8::1"},
		"multicast":  {"239.1.1.1", "ff05::2"},
		"tunnelled":  {"2001::1"},
	} {
		for _, text := range addresses {
			got, hint := classOf(netip.MustParseAddr(text).Unmap())
			if got != kind || (hint == "") != (kind == "") {
				t.Errorf("%s is %q (%s), want %q", text, got, hint, kind)
			}
		}
	}
}

func TestGuard(t *testing.T) {
	for _, test := range []struct {
		name, host, address string
		o                   Options
		ok                  bool
	}{
		{"public", "a.example:443", "1.1.1.1:443", Options{}, true},
		{"private", "a.example:443", "10.0.0.1:443", Options{}, false},
		{"rebound", "public.example:80", "127.0.0.1:80", Options{}, false},
		{"zone", "a:80", "[fe80::1%eth0]:80", Options{}, false},
		{"private allowed", "a:80", "10.0.0.1:80", Options{AllowPrivate: true}, true},
		{"loopback allowed", "a:80", "[::1]:80", Options{AllowPrivate: true}, true},
		{"metadata never by AllowPrivate", "a:80", "169.254.169.254:80", Options{AllowPrivate: true}, false},
		{"link-local never by AllowPrivate", "a:80", "169.254.1.1:80", Options{AllowPrivate: true}, false},
		{"network", "a:80", "10.1.2.3:80", Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}, true},
		{"other network", "a:80", "10.2.2.3:80", Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}, false},
		{"mapped", "a:80", "[::ffff:10.1.2.3]:80", Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}, true},
		{"host", "DB.Internal.:80", "10.0.0.1:80", Options{AllowHosts: []string{"db.internal"}}, true},
		{"host and port", "db.internal:80", "10.0.0.1:80", Options{AllowHosts: []string{"db.internal:80"}}, true},
		{"other port", "db.internal:81", "10.0.0.1:81", Options{AllowHosts: []string{"db.internal:80"}}, false},
		{"below", "a.svc.local:80", "10.0.0.1:80", Options{AllowHosts: []string{"*.svc.local"}}, true},
		{"not below", "evilsvc.local:80", "10.0.0.1:80", Options{AllowHosts: []string{"*.svc.local"}}, false},
		{"itself", "svc.local:80", "10.0.0.1:80", Options{AllowHosts: []string{"*.svc.local"}}, false},
		{"garbage", "a:80", "no address", Options{AllowPrivate: true}, false},
	} {
		g, err := newGuard(test.o)
		if err != nil {
			t.Fatal(err)
		}
		err = g.check(test.host, test.address)
		if f, blocked := errors.AsType[*Failure](err); (err == nil) != test.ok || blocked && f.Kind != KindBlocked {
			t.Errorf("%s: %v, want ok %t", test.name, err, test.ok)
		}
	}
}

// TestGuardAtDial proves that the check is made where the connection is, on names as on addresses.
func TestGuardAtDial(t *testing.T) {
	reached := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	defer server.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	strict, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer strict.Close()
	for _, url := range []string{server.URL, "http://localhost:" + port, "http://[::ffff:127.0.0.1]:" + port, "http://0.0.0.0:" + port} {
		_, _, err := fetch(t, strict, &Request{URL: url})
		f, ok := errors.AsType[*Failure](err)
		if !ok || f.Kind != KindBlocked && f.Kind != KindDNS || !strings.Contains(stepwell.HintOf(err), "allow_hosts") && f.Kind == KindBlocked {
			t.Errorf("%s: %v (%s)", url, err, stepwell.HintOf(err))
		}
	}
	if reached != 0 {
		t.Errorf("%d requests arrived", reached)
	}
	named, err := New(Options{AllowHosts: []string{"localhost"}})
	if err != nil {
		t.Fatal(err)
	}
	defer named.Close()
	if status, _, err := fetch(t, named, &Request{URL: "http://localhost:" + port}); err != nil || status != 200 {
		t.Errorf("allowed by name: %d, %v", status, err)
	}
}

// TestRedirects holds the rules: what goes along to the same origin, and what not to another.
func TestRedirects(t *testing.T) {
	var seen http.Header
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.Header.Clone() }))
	defer other.Close()
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, other.URL, http.StatusFound)
		case "/body-away":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case "/here":
			http.Redirect(w, r, "/end", http.StatusFound)
		case "/file":
			w.Header().Set("Location", "file:///etc/passwd")
			w.WriteHeader(http.StatusFound)
		case "/end":
			seen = r.Header.Clone()
		}
	}))
	defer home.Close()
	c := local(t, Options{})
	secret := func() http.Header {
		return http.Header{"Authorization": {"Bearer abcdefgh"}, "X-Api-Key": {"k1234567"}, "X-Vendor-Token": {"t1234567"}, "Cookie": {"session=s1234567"},
			"Idempotency-Key": {"key"}, "X-Plain": {"yes"}}
	}
	if _, _, err := fetch(t, c, &Request{URL: home.URL + "/here", Header: secret(), Redirects: 1}); err != nil || seen.Get("X-Vendor-Token") == "" || seen.Get("Authorization") == "" {
		t.Errorf("same origin: %v, %v", seen, err)
	}
	seen = nil
	if _, _, err := fetch(t, c, &Request{URL: home.URL + "/away", Header: secret(), Redirects: 1}); err != nil || seen.Get("X-Plain") != "yes" {
		t.Fatalf("other origin: %v, %v", seen, err)
	}
	for _, name := range []string{"Authorization", "X-Api-Key", "X-Vendor-Token", "Cookie", "Idempotency-Key", "Referer"} {
		if v := seen.Get(name); v != "" {
			t.Errorf("%s went along to another origin: %s", name, v)
		}
	}
	seen = nil
	for path, text := range map[string]string{"/body-away": "wants the body sent to another origin", "/file": "leads to a file URL"} {
		_, _, err := fetch(t, c, &Request{Method: "POST", URL: home.URL + path, Redirects: 1, Body: Text("content", "text/plain")})
		if f, ok := errors.AsType[*Failure](err); !ok || f.Kind != KindBlocked || !strings.Contains(err.Error(), text) || seen != nil {
			t.Errorf("%s: %v, %v", path, err, seen)
		}
	}
	if status, _, err := fetch(t, c, &Request{URL: home.URL + "/away"}); err != nil || status != http.StatusFound {
		t.Errorf("not followed: %d, %v", status, err)
	}
}
