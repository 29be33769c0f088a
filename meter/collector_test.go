package meter

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/stepwell/stepwell"
)

var oneSpan = []*tracepb.ResourceSpans{{ScopeSpans: []*tracepb.ScopeSpans{{Spans: []*tracepb.Span{{Name: "here"}}}}}}

// ExportTraceServiceRequest of oneSpan: its field 1, and in it fields 2 (the scope's), 2 (the span) and 5 (its name).
const oneRequest = "0a0a12081206" + "2a0468657265"

// asked is the collector's answers one after the other, and what it was sent.
type asked struct {
	answers []func(http.ResponseWriter)
	n       atomic.Int64
	last    *http.Request
	body    []byte
}

func (a *asked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.last = r
	a.body, _ = io.ReadAll(r.Body)
	a.answers[min(int(a.n.Add(1)), len(a.answers))-1](w)
}

func status(code int) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { http.Error(w, "so it is", code) }
}

func upload(t *testing.T, c *collector) error {
	t.Helper()
	c.retry.Backoff = time.Millisecond
	defer func() { _ = c.Stop(t.Context()) }()
	return c.UploadTraces(t.Context(), oneSpan)
}

func TestCollectorGetsSpans(t *testing.T) {
	for _, compression := range []string{"", "gzip"} {
		t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", compression)
		a := &asked{answers: []func(http.ResponseWriter){status(200)}}
		s := httptest.NewServer(a)
		defer s.Close()
		c, err := newCollector(s.URL+"/v1/traces", map[string]string{"X-Tenant": "a"})
		if err != nil {
			t.Fatal(err)
		}
		if err := upload(t, c); err != nil {
			t.Fatal(err)
		}
		body := a.body
		if got := a.last.Header.Get("Content-Encoding"); got != compression {
			t.Errorf("Content-Encoding %q, want %q", got, compression)
		} else if got != "" {
			r, err := gzip.NewReader(bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if body, err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
		}
		if a.last.Method != "POST" || a.last.URL.Path != "/v1/traces" || a.last.Header.Get("Content-Type") != "application/x-protobuf" || a.last.Header.Get("X-Tenant") != "a" {
			t.Errorf("%s %s %v", a.last.Method, a.last.URL, a.last.Header)
		}
		if got := hex.EncodeToString(body); got != oneRequest {
			t.Errorf("sent %s, want %s", got, oneRequest)
		}
	}
}

func TestCollectorIsAskedAgain(t *testing.T) {
	rejects := func(w http.ResponseWriter) { // partial_success {rejected_spans: 3, error_message: "full"}
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write([]byte("\x0a\x08\x08\x03\x12\x04full"))
	}
	for name, c := range map[string]struct {
		answers []func(http.ResponseWriter)
		asked   int64
		err     string
	}{
		"busy, then well":   {[]func(http.ResponseWriter){status(503), status(429), status(200)}, 3, ""},
		"busy for good":     {[]func(http.ResponseWriter){status(502)}, 5, "502"},
		"a wrong request":   {[]func(http.ResponseWriter){status(400)}, 1, "400 Bad Request: so it is"},
		"some are rejected": {[]func(http.ResponseWriter){rejects}, 1, "rejected 3 spans: full"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &asked{answers: c.answers}
			s := httptest.NewServer(a)
			defer s.Close()
			to, err := newCollector(s.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			err = upload(t, to)
			if n := a.n.Load(); n != c.asked {
				t.Errorf("asked %d times, want %d", n, c.asked)
			}
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
}

func TestCollectorStopCutsOff(t *testing.T) {
	a := &asked{answers: []func(http.ResponseWriter){status(503)}}
	s := httptest.NewServer(a)
	defer s.Close()
	c, err := newCollector(s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.retry.Backoff = time.Hour
	done := make(chan error, 1)
	go func() { done <- c.UploadTraces(context.Background(), oneSpan) }()
	for a.n.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	_ = c.Stop(t.Context())
	if err := <-done; err == nil {
		t.Error("an upload that was cut off has no error")
	}
}

func TestCollectorVerifies(t *testing.T) {
	a := &asked{answers: []func(http.ResponseWriter){status(200)}}
	s := httptest.NewTLSServer(a)
	defer s.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", ca)
	c, err := newCollector(s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := upload(t, c); err != nil {
		t.Error(err)
	}
}

func TestCollectorRefuses(t *testing.T) {
	for _, endpoint := range []string{"localhost:4318", "ftp://localhost", "http://", "http://%"} {
		if _, err := newCollector(endpoint, nil); stepwell.CodeOf(err) != stepwell.CodeInvalid || stepwell.HintOf(err) == "" {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
	for name, value := range map[string]string{"TIMEOUT": "10s", "CERTIFICATE": "/nowhere.pem"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_"+name, value)
			if _, err := newCollector("http://localhost:4318", nil); stepwell.CodeOf(err) != stepwell.CodeInvalid || !strings.Contains(err.Error(), name) {
				t.Error(err)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "soon": 0, "-3": 0, "2": 2 * time.Second, "86400": time.Minute,
		"Thu, 01 Jan 1970 00:00:00 GMT": 0, "Fri, 01 Jan 2100 00:00:00 GMT": time.Minute} {
		if got := retryAfter(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// A truncated or odd answer of a collector is no reason to fail.
func FuzzPartialSuccess(f *testing.F) {
	f.Add([]byte("\x0a\x08\x08\x03\x12\x04full"))
	f.Fuzz(func(_ *testing.T, b []byte) { _ = partialSuccess(b) })
}
