package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
)

// slowLines serves a file of lines of which the first request gets parts only: what is behind them comes when the test
// says so, or never.
type slowLines struct {
	body []byte
	more chan int // up to where the first request may read

	mu     sync.Mutex
	ranges []string // of the requests
}

func (l *slowLines) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	l.ranges = append(l.ranges, r.Header.Get("Range"))
	first := len(l.ranges) == 1
	l.mu.Unlock()
	w.Header().Set("ETag", `"one"`)
	w.Header().Set("Content-Type", "application/x-ndjson")
	if !first {
		http.ServeContent(w, r, "in.ndjson", time.Time{}, bytes.NewReader(l.body))
		return
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(l.body)))
	at := 0
	for {
		select {
		case <-r.Context().Done():
			return
		case to := <-l.more:
			w.Write(l.body[at:to])
			w.(http.Flusher).Flush()
			at = to
		}
	}
}

// TestNodeKilledInStream kills the server that runs a stream: another one, with files of its own, goes on with it where the
// first has handed it over, and each item is in the output once.
func TestNodeKilledInStream(t *testing.T) {
	database := postgrestest.New(t)
	backend := s3mem.New()
	if err := backend.CreateBucket("data"); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	saves := 0
	service := gofakes3.New(backend).Server()
	bucket := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		service.ServeHTTP(w, r)
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/items/-/") && strings.Contains(r.URL.Path, "/versions/") {
			saves++
		}
	}))
	t.Cleanup(bucket.Close)
	saved := func() int {
		mu.Lock()
		defer mu.Unlock()
		return saves
	}
	for name, value := range map[string]string{"AWS_ENDPOINT_URL_S3": bucket.URL, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
		"STEPWELL_SECRETS_KEY": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="} {
		t.Setenv(name, value)
	}
	lines := &slowLines{more: make(chan int)}
	const items = 20_000
	for n := range items {
		lines.body = fmt.Appendf(lines.body, "{\"id\":\"item-%d\",\"n\":%d}\n", n, n)
	}
	source := httptest.NewServer(lines)
	t.Cleanup(source.CloseClientConnections)
	var nodes [2]*crashRig
	for i := range nodes {
		nodes[i] = newCrashRig(t)
		nodes[i].flags = []string{"--db", database.URL()}
		settings := "http: {allow_private: true}\nstreams: {shared: s3://data/streams}\n"
		if err := os.WriteFile(filepath.Join(nodes[i].dir, "stepwell.yaml"), []byte(settings), 0o600); err != nil {
			t.Fatal(err)
		}
		nodes[i].start()
	}
	first, second := nodes[0], nodes[1]
	document := func(path string) api.Object {
		return api.Object{"document": fmt.Sprintf(`
name: items
settings: {streams: {checkpoint_interval_seconds: 0.05}}
steps:
  - {id: read, module: stream.read, config: {path: %q}}
  - {id: write, module: stream.write, depends_on: [read], config: {path: %q}}
`, source.URL+"/in.ndjson", path)}
	}
	var checked api.Validation
	if err := first.client.Call(t.Context(), "POST", "/api/v1/pipelines/validate", nil, document("out.ndjson"), &checked); err != nil {
		t.Fatal(err)
	}
	if len(checked.Problems) != 1 || !strings.Contains(checked.Problems[0].Message, "writes to the folder of whichever worker gets it") {
		t.Errorf("a stream that writes to a folder: %+v", checked)
	}
	if err := first.client.Call(t.Context(), "POST", "/api/v1/pipelines", nil, document("s3://data/out/all.ndjson"), nil); err != nil {
		t.Fatal(err)
	}
	started, err := first.client.Execute(t.Context(), api.ExecuteRequest{Workflow: "items"}, "one")
	if err != nil {
		t.Fatal(err)
	}
	first.until("the beginning", func() bool { return saved() > 0 })
	for _, part := range []int{3, 2} {
		before := saved()
		lines.more <- len(lines.body) / part
		first.until("a save of these items", func() bool { return saved() > before })
	}
	first.kill()
	second.until("the end of the execution", func() bool {
		x, err := second.client.Execution(t.Context(), started.ID)
		return err == nil && x.Status == "completed"
	})
	lines.mu.Lock()
	defer lines.mu.Unlock()
	if len(lines.ranges) < 2 || !strings.HasPrefix(lines.ranges[1], "bytes=") || lines.ranges[1] == "bytes=0-" {
		t.Errorf("the second server has started over: %q", lines.ranges)
	}
	o, err := backend.GetObject("data", "out/all.ndjson", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Contents.Close()
	if body, err := io.ReadAll(o.Contents); err != nil || !bytes.Equal(body, lines.body) {
		t.Errorf("%d bytes are in the output (%v), want %d", len(body), err, len(lines.body))
	}
}
