package durabletest

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// Bucket is an S3 service with a bucket "data", whose requests a test can refuse, hold and count.
type Bucket struct {
	t       testing.TB
	URL     string
	Backend *s3mem.Backend

	mu    sync.Mutex
	count map[string]int
	at    func(kind string, n int) (refuse bool, after func()) // nil: nothing happens
}

// The kinds of requests that tests look at.
const (
	PutVersion = "version" // a Save of a stream of a pipeline whose name begins with flow
	PutOutput  = "output"  // a file of items below out/
	other      = "other"
)

// NewBucket starts one, which ends with the test.
func NewBucket(t testing.TB) *Bucket {
	b := &Bucket{t: t, Backend: s3mem.New(), count: map[string]int{}}
	if err := b.Backend.CreateBucket("data"); err != nil {
		t.Fatal(err)
	}
	inner := gofakes3.New(b.Backend).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse, after := b.arrive(r)
		if refuse {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		if r.Method == http.MethodPost && r.URL.Query().Has("uploadId") && !b.allows(r) {
			w.WriteHeader(http.StatusPreconditionFailed)
			return
		}
		if after == nil {
			inner.ServeHTTP(w, r)
			return
		}
		inner.ServeHTTP(httptest.NewRecorder(), r) // whoever asked does not hear of it
		after()
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(server.Close)
	b.URL = server.URL
	return b
}

// allows checks the condition of a request that ends an upload in parts, which gofakes3 does not.
func (b *Bucket) allows(r *http.Request) bool {
	tag := ""
	if o, err := b.Backend.HeadObject("data", strings.TrimPrefix(r.URL.Path, "/data/")); err == nil {
		tag = fmt.Sprintf("%q", hex.EncodeToString(o.Hash))
	}
	if r.Header.Get("If-None-Match") == "*" {
		return tag == ""
	}
	return r.Header.Get("If-Match") == tag
}

func (b *Bucket) arrive(r *http.Request) (bool, func()) {
	kind := other
	switch {
	case r.Method != http.MethodPut:
	case strings.Contains(r.URL.Path, "/flow") && strings.Contains(r.URL.Path, "/-/") && strings.Contains(r.URL.Path, "/versions/"):
		kind = PutVersion
	case strings.HasPrefix(r.URL.Path, "/data/out/") && !strings.HasSuffix(r.URL.Path, ".json"):
		kind = PutOutput
	}
	b.mu.Lock()
	b.count[kind]++
	n, at := b.count[kind], b.at
	b.mu.Unlock()
	if at == nil {
		return false, nil
	}
	return at(kind, n)
}

// When sets what happens to requests, counted from 1 by kind.
func (b *Bucket) When(at func(kind string, n int) (refuse bool, after func())) {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.count)
	b.at = at
}

// Object reads an object.
func (b *Bucket) Object(key string) []byte {
	b.t.Helper()
	o, err := b.Backend.GetObject("data", key, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	defer o.Contents.Close()
	body, err := io.ReadAll(o.Contents)
	if err != nil {
		b.t.Fatal(err)
	}
	return body
}
