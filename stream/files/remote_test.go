package files

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/outbound"
)

// bucket starts an S3 service with a bucket and gives Places that reach it.
func bucket(t testing.TB) (*Places, *httptest.Server) {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("data"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	return New(Options{S3: S3Options{Endpoint: server.URL, AccessKey: "key", SecretKey: "secret"}}), server
}

func TestS3(t *testing.T) {
	p, _ := bucket(t)
	ctx := context.Background()
	dir := t.TempDir()
	for _, key := range []string{"in/b.ndjson", "in/a.ndjson", "in/deep/c.ndjson", "in/ü x.ndjson", "other"} {
		if err := p.Publish(ctx, put(t, dir, "up", "{\"k\":\""+key+"\"}\n{}\n"), "s3://data/"+key); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "up")); !os.IsNotExist(err) {
			t.Error("the local file is still there")
		}
	}
	for pattern, want := range map[string]string{
		"s3://data/in/":       "in/a.ndjson in/b.ndjson in/ü x.ndjson",
		"s3://data/in/*":      "in/a.ndjson in/b.ndjson in/ü x.ndjson",
		"s3://data/in/**":     "in/a.ndjson in/b.ndjson in/deep/c.ndjson in/ü x.ndjson",
		"s3://data/**/c.*":    "in/deep/c.ndjson",
		"s3://data/o*":        "other",
		"s3://data/in/a.json": "in/a.json",
	} {
		got, err := p.List(ctx, dir, pattern)
		if text := strings.ReplaceAll(strings.Join(got, " "), "s3://data/", ""); text != want || err != nil {
			t.Errorf("%s: %s %v", pattern, text, err)
		}
	}
	var next []Position
	err := p.Each(ctx, "s3://data/in/a.ndjson", Shape{}, nil, func(r Row) error { next = append(next, r.Next); return nil })
	if err != nil || len(next) != 2 {
		t.Fatal(next, err)
	}
	rows := 0
	if err := p.Each(ctx, "s3://data/in/a.ndjson", Shape{}, &next[0], func(r Row) error { rows++; return nil }); err != nil || rows != 1 {
		t.Error(rows, err)
	}
	for path, code := range map[string]stepwell.Code{"s3://data/none": stepwell.CodeNotFound, "s3://none/x": stepwell.CodeNotFound, "s3:///x": stepwell.CodeInvalid} {
		if _, _, err := p.Open(ctx, path); stepwell.CodeOf(err) != code || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestS3LargeUpload(t *testing.T) {
	signed, server := bucket(t)
	p := New(Options{S3: S3Options{Endpoint: server.URL, Anonymous: true}})
	ctx := context.Background()
	const size = 40 << 20 // parts
	local := put(t, t.TempDir(), "up", strings.Repeat("0123456789abcdef", size/16))
	if err := p.Publish(ctx, local, "s3://data/big"); err != nil {
		t.Fatal(err)
	}
	in, info, err := p.Open(ctx, "s3://data/big")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if n, err := io.Copy(io.Discard, in); n != size || info.Size != size || err != nil {
		t.Error(n, info, err)
	}
	// The service of this test keeps the signatures of signed parts in the object: what arrives is not what was sent.
	local = put(t, t.TempDir(), "up", strings.Repeat("0123456789abcdef", size/16))
	if err := signed.Publish(ctx, local, "s3://data/big"); err == nil || !strings.Contains(err.Error(), "arrived") {
		t.Errorf("an object of another size: %v", err)
	}
	if _, err := os.Stat(local); err != nil {
		t.Error("the local file is gone though it did not arrive:", err)
	}
}

// TestS3Broken has a connection that breaks in the middle of an object, over and over.
func TestS3Broken(t *testing.T) {
	backend := s3mem.New()
	if err := backend.CreateBucket("data"); err != nil {
		t.Fatal(err)
	}
	inner := gofakes3.New(backend).Server()
	breaks := 3
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && breaks > 0 {
			breaks--
			inner.ServeHTTP(&breaking{ResponseWriter: w, left: 300_000}, r)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	p := New(Options{S3: S3Options{Endpoint: server.URL, AccessKey: "key", SecretKey: "secret"}})
	text := lines(20_000)
	if err := p.Publish(context.Background(), put(t, t.TempDir(), "up", text), "s3://data/k.ndjson"); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	err := p.Each(context.Background(), "s3://data/k.ndjson", Shape{}, nil, func(r Row) error {
		got.Write(append(r.Text, '\n'))
		return nil
	})
	if err != nil || got.String() != text || breaks != 0 {
		t.Errorf("%d of %d bytes, %v, %d", got.Len(), len(text), err, breaks)
	}
}

func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"n\":%d,\"text\":\"%s\"}\n", i, strings.Repeat("x", 30+i%30))
	}
	return b.String()
}

// breaking ends the connection after some bytes.
type breaking struct {
	http.ResponseWriter
	left int
}

func (b *breaking) Write(p []byte) (int, error) {
	if len(p) > b.left {
		b.ResponseWriter.Write(p[:b.left])      //nolint:errcheck // it is to break
		b.ResponseWriter.(http.Flusher).Flush() //nolint:forcetypeassert // test
		panic(http.ErrAbortHandler)
	}
	b.left -= len(p)
	return b.ResponseWriter.Write(p)
}

func served(t testing.TB, h http.HandlerFunc) (*Places, string) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	client, err := outbound.New(outbound.Options{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return New(Options{HTTP: client}), server.URL
}

func TestWeb(t *testing.T) {
	text := lines(20_000)
	var mu sync.Mutex
	var ranges []string
	breaks, busy := 3, 1
	p, url := served(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		ranges = append(ranges, r.Header.Get("Range"))
		if busy > 0 {
			busy--
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("ETag", `"v1"`)
		out := w
		if breaks > 0 {
			breaks--
			out = &breaking{w, 300_000}
		}
		http.ServeContent(out, r, "k", time.Time{}, strings.NewReader(text))
	})
	var got bytes.Buffer
	var middle Position
	err := p.Each(context.Background(), url+"/k.ndjson?token=hidden", Shape{}, nil, func(r Row) error {
		got.Write(append(r.Text, '\n'))
		if r.Line == 10_000 {
			middle = r.Next
		}
		return nil
	})
	if err != nil || got.String() != text || len(ranges) != 5 || ranges[2] != "bytes=300000-" {
		t.Fatalf("%d of %d bytes, %v, %q", got.Len(), len(text), err, ranges)
	}
	rest := 0
	if err := p.Each(context.Background(), url+"/k.ndjson", Shape{}, &middle, func(Row) error { rest++; return nil }); err != nil || rest != 10_000 {
		t.Error(rest, err)
	}
	if last := ranges[len(ranges)-1]; last != fmt.Sprintf("bytes=%d-", middle.Offset-1) {
		t.Error(last)
	}
}

func TestWebErrors(t *testing.T) {
	text := lines(20_000)
	version := 0
	p, url := served(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/none.ndjson":
			http.Error(w, "no such thing, secret=hidden", http.StatusNotFound)
		case "/changing.ndjson": // another version each time
			version++
			w.Header().Set("ETag", fmt.Sprintf(`"v%d"`, version))
			http.ServeContent(&breaking{w, 300_000}, r, "k", time.Time{}, strings.NewReader(text))
		case "/plain.ndjson": // without a validator
			w.Write([]byte(text[:300_000])) //nolint:errcheck // it is to break
			w.(http.Flusher).Flush()        //nolint:forcetypeassert // test
			panic(http.ErrAbortHandler)
		}
	})
	for path, want := range map[string]stepwell.Code{"/none.ndjson?secret=hidden": stepwell.CodeNotFound, "/changing.ndjson": stepwell.CodeConflict, "/plain.ndjson": stepwell.CodeUnavailable} {
		err := p.Each(context.Background(), url+path, Shape{}, nil, func(Row) error { return nil })
		if stepwell.CodeOf(err) != want || strings.Contains(err.Error(), "hidden") || !strings.Contains(err.Error(), url) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, _, err := New(Options{}).Open(context.Background(), "https://example.org/a"); stepwell.CodeOf(err) != stepwell.CodeInvalid {
		t.Error(err)
	}
}

// TestTries counts how often a file that cannot be opened is tried, and how long that takes.
func TestTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries, began := 0, time.Now()
		_, err := resume(t.Context(), 0, func(int64) (io.ReadCloser, bool, time.Duration, error) {
			tries++
			return nil, true, time.Duration(tries-1) * time.Hour, io.ErrClosedPipe
		})
		if took := time.Since(began); err != io.ErrClosedPipe || tries != maxTries || took != firstGap+3*maxGap { //nolint:errorlint // as it is
			t.Error(tries, took, err)
		}
	})
}

func TestPublish(t *testing.T) {
	dir := t.TempDir()
	ctx := context.Background()
	p := New(Options{})
	dest := filepath.Join(dir, "new", "below", strings.Repeat("ü", 120)+".json")
	if err := p.Publish(ctx, put(t, dir, "a", "1"), dest); err != nil {
		t.Fatal(err)
	}
	if err := p.Publish(ctx, put(t, dir, "a", "2"), dest); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(dest); string(got) != "2" || err != nil {
		t.Error(string(got), err)
	}
	if err := p.Publish(ctx, put(t, dir, "a", "1"), "https://example.org/a"); stepwell.CodeOf(err) != stepwell.CodeInvalid {
		t.Error(err)
	}
	if err := p.Publish(ctx, put(t, dir, "a", "1"), filepath.Join(dir, strings.Repeat("n", 300))); err == nil {
		t.Error("a name of 300 characters")
	}
}
