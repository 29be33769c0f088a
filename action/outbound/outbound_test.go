package outbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/outbound/outboundtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// local makes a client that may reach loopback addresses.
func local(t testing.TB, o Options) *Client {
	t.Helper()
	o.AllowCIDRs = append(o.AllowCIDRs, netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"))
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// fetch makes one exchange and reads its body.
func fetch(t testing.TB, c *Client, req *Request) (status int, body string, err error) {
	t.Helper()
	resp, err := c.Do(t.Context(), req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.Status, string(raw), err
}

// TestFaults has each fault end as its documentation says, with little read. Only the limit that is meant to end it is
// short, so that a busy machine reaches no other one first.
func TestFaults(t *testing.T) {
	s := outboundtest.New(t)
	c := local(t, Options{Breaker: Breaker{Failures: -1}})
	timeouts := func(phase string) Timeouts {
		t := Timeouts{Connect: time.Minute, TLS: time.Minute, FirstByte: time.Minute, Idle: time.Minute, Total: time.Minute}
		switch phase {
		case "first_byte":
			t.FirstByte = 150 * time.Millisecond
		case "idle":
			t.Idle = 150 * time.Millisecond
		case "total":
			t.Total = 600 * time.Millisecond
		}
		return t
	}
	for path, want := range map[string]struct {
		kind  Kind
		phase string
		code  stepwell.Code
		text  string
	}{
		"/reset":   {KindReset, "", stepwell.CodeUnavailable, "connection reset"},
		"/close":   {KindReset, "", stepwell.CodeUnavailable, "EOF"},
		"/half":    {KindTruncated, "", stepwell.CodeUnavailable, "unexpected EOF"},
		"/silent":  {KindTimeout, "first_byte", stepwell.CodeTimeout, "no response within 150ms"},
		"/stall":   {KindTimeout, "idle", stepwell.CodeTimeout, "nothing moved for 150ms"},
		"/drip":    {KindTimeout, "total", stepwell.CodeTimeout, "longer than 600ms"},
		"/endless": {KindLimit, "body", stepwell.CodeLimit, "larger than 4 MiB"},
		"/inside":  {KindBlocked, "", stepwell.CodeInvalid, "10.255.255.1:80 leads to the private address 10.255.255.1"},
		"/circle":  {KindLimit, "redirects", stepwell.CodeLimit, "more than 3 redirects"},
		"/bomb":    {KindLimit, "body", stepwell.CodeLimit, "larger than 4 MiB"},
		"/headers": {KindLimit, "", stepwell.CodeLimit, "headers exceeded"},
	} {
		t.Run(path, func(t *testing.T) {
			_, _, err := fetch(t, c, &Request{URL: s.URL + path, Timeouts: timeouts(want.phase), Redirects: 3, MaxBytes: 4 << 20})
			f, ok := errors.AsType[*Failure](err)
			if !ok || f.Kind != want.kind || want.phase != "" && f.Phase != want.phase || stepwell.CodeOf(err) != want.code || !strings.Contains(err.Error(), want.text) {
				t.Fatalf("got %+v (%v), want %+v", f, err, want)
			}
			if want.kind == KindBlocked && !strings.Contains(stepwell.HintOf(err), "allow_hosts") {
				t.Errorf("hint %q names no option", stepwell.HintOf(err))
			}
		})
	}
	if n := s.Count("/circle"); n != 4 {
		t.Errorf("%d requests in circles, want one and three redirects", n)
	}
}

// TestGzipBomb reads a bomb under a large cap: its ratio ends it.
func TestGzipBomb(t *testing.T) {
	s := outboundtest.New(t)
	resp, err := local(t, Options{}).Do(t.Context(), &Request{URL: s.URL + "/bomb", MaxBytes: 1 << 40})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if f, ok := errors.AsType[*Failure](err); !ok || f.Kind != KindLimit || f.Phase != "gzip" {
		t.Fatalf("read %d bytes: %v", n, err)
	}
	if n > 2*bombFloor {
		t.Errorf("unpacked %d bytes of it", n)
	}
}

func TestGzip(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/none":
			w.Header().Set("Content-Encoding", "gzip")
		case "/lie":
			w.Header().Set("Content-Encoding", "gzip")
			io.WriteString(w, "this is not gzip at all") //nolint:errcheck // a test's server
		case "/br":
			w.Header().Set("Content-Encoding", "br")
			io.WriteString(w, "x") //nolint:errcheck // a test's server
		}
	}))
	defer server.Close()
	c := local(t, Options{})
	if _, body, err := fetch(t, c, &Request{Method: "HEAD", URL: server.URL + "/none"}); err != nil || body != "" {
		t.Errorf("no body: %q, %v", body, err)
	}
	for path, text := range map[string]string{"/lie": "is not", "/br": "encoded as br"} {
		_, _, err := fetch(t, c, &Request{URL: server.URL + path})
		if f, ok := errors.AsType[*Failure](err); !ok || f.Kind != KindContent || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer plain.Close()
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	c := local(t, Options{})
	for url, want := range map[string]Kind{
		server.URL: KindTLS,
		strings.Replace(plain.URL, "http:", "https:", 1): KindTLS,
		"https://" + mute.Addr().String():                KindTimeout,
	} {
		limit := 30 * time.Second
		if want == KindTimeout {
			limit = 50 * time.Millisecond
		}
		_, _, err := fetch(t, c, &Request{URL: url, Timeouts: Timeouts{TLS: limit}})
		if f, ok := errors.AsType[*Failure](err); !ok || f.Kind != want || want == KindTimeout && f.Phase != "tls" {
			t.Errorf("%s: %v, want %s", url, err, want)
		}
	}
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	if status, _, err := fetch(t, local(t, Options{RootCAs: pool}), &Request{URL: server.URL}); err != nil || status != 200 {
		t.Errorf("trusted: %d, %v", status, err)
	}
	if v := c.transport.TLSClientConfig.MinVersion; v < tls.VersionTLS12 {
		t.Errorf("TLS version %x", v)
	}
}

func TestHTTP2(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Proto) //nolint:errcheck // a test's server
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	c := local(t, Options{RootCAs: pool})
	if _, body, err := fetch(t, c, &Request{URL: server.URL, Timeouts: Timeouts{Connect: time.Minute, TLS: time.Minute, FirstByte: time.Minute, Idle: time.Minute}}); err != nil || body != "HTTP/2.0" {
		t.Errorf("%q, %v", body, err)
	}
	c.Close()
}

func TestNoConnection(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	c := local(t, Options{})
	for url, want := range map[string]Kind{"http://" + address: KindConnect, "http://name.invalid": KindDNS} {
		_, _, err := fetch(t, c, &Request{URL: url, Timeouts: Timeouts{Total: 5 * time.Second}})
		if f, ok := errors.AsType[*Failure](err); !ok || f.Kind != want {
			t.Errorf("%s: %v, want %s", url, err, want)
		}
	}
}

// TestSlowReader takes its time over a response that is there: that is not the server's fault.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	s := outboundtest.New(t)
	resp, err := local(t, Options{}).Do(t.Context(), &Request{URL: s.URL + "/ok", Timeouts: Timeouts{Idle: 2 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Close()
	<-time.After(2100 * time.Millisecond)
	if _, err := resp.Body.Read(make([]byte, 3)); err != nil {
		t.Error(err)
	}
}

func TestCancel(t *testing.T) {
	s := outboundtest.New(t)
	cause := errors.New("stopped by somebody")
	for _, path := range []string{"/silent", "/stall"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		timer := time.AfterFunc(30*time.Millisecond, func() { cancel(cause) })
		resp, err := local(t, Options{}).Do(ctx, &Request{URL: s.URL + path})
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			resp.Close()
		}
		if !errors.Is(err, cause) {
			t.Errorf("%s: %v, want the cause", path, err)
		}
		timer.Stop()
		cancel(nil)
	}
}

func TestRequestRefused(t *testing.T) {
	c := local(t, Options{})
	for name, req := range map[string]*Request{
		"scheme":     {URL: "ftp://host/secret-part"},
		"no host":    {URL: "http:///secret-part"},
		"no url":     {URL: "http://%zz/secret-part"},
		"method":     {Method: "G T", URL: "http://127.0.0.1/"},
		"own header": {URL: "http://127.0.0.1/", Header: http.Header{"Content-Length": {"3"}}},
		"line break": {URL: "http://127.0.0.1/", Header: http.Header{"X": {"a\r\nsecret-part: b"}}},
		"name":       {URL: "http://127.0.0.1/", Header: http.Header{"a b": {"c"}}},
	} {
		_, _, err := fetch(t, c, req)
		if f, ok := errors.AsType[*Failure](err); !ok || f.Kind != KindInvalid || strings.Contains(err.Error(), "secret-part") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOptionsRefused(t *testing.T) {
	for name, o := range map[string]Options{
		"host": {AllowHosts: []string{"*"}}, "url": {AllowHosts: []string{"http://x/"}},
		"cidr": {AllowCIDRs: []netip.Prefix{{}}}, "both": {Record: "a", Replay: "b"},
	} {
		if _, err := New(o); stepwell.CodeOf(err) != stepwell.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
