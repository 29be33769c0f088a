package kubetest

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
)

// Behind is the cluster behind a proxy of the test's own, in which it sees every request before the API server does, and its
// answer: wrap gets what passes a request on. The returned cluster has the proxy's address and certificate; cut ends its
// connections, watches and logs among them.
func (c *Cluster) Behind(t testing.TB, wrap func(next http.Handler) http.Handler) (_ *Cluster, cut func()) {
	t.Helper()
	target, err := url.Parse(c.URL)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.CA)
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), // who cuts connections knows
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
	s := httptest.NewUnstartedServer(wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body)) // whole: an answer that comes before its end would wait for it
		pass.ServeHTTP(w, r)
	})))
	s.EnableHTTP2, s.Config.ErrorLog = true, log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return &Cluster{URL: s.URL, CA: ca, Token: c.Token, client: s.Client()}, s.CloseClientConnections
}
