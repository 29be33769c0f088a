package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stepwell/stepwell/stac/stactest"
)

// pageServer counts which pages it has answered, and kills the program that asks for some of them.
type pageServer struct {
	pages http.Handler
	paged func(path string) bool

	mu       sync.Mutex
	answered map[string]int
	kill     map[int]bool // at the request of the page with this number
	program  *exec.Cmd
}

// ServeHTTP implements http.Handler.
func (s *pageServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.paged(r.URL.Path) {
		s.pages.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return // who asked is gone
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.mu.Lock()
	page := len(s.answered) + 1
	if s.kill[page] {
		delete(s.kill, page)
		_ = s.program.Process.Kill() // the test waits for it
		s.mu.Unlock()
		<-r.Context().Done()
		return
	}
	s.answered[r.Method+r.URL.String()+string(body)]++
	s.mu.Unlock()
	s.pages.ServeHTTP(w, r)
}

// run runs the flow, and goes on with it until it ends by itself.
func (s *pageServer) run(t *testing.T, dir string) (kills int) {
	args := []string{"run", "flow.yaml"}
	for {
		cmd := exec.CommandContext(t.Context(), "stepwell", args...)
		cmd.Dir = dir
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		s.mu.Lock()
		before := len(s.kill)
		err := cmd.Start()
		s.program = cmd
		s.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		err = cmd.Wait()
		s.mu.Lock()
		killed := len(s.kill) < before
		s.mu.Unlock()
		switch {
		case killed:
			kills++
			args = []string{"run", "flow.yaml", "--resume"}
		case err != nil:
			t.Fatalf("after %d kills: %v\n%s", kills, err, &out)
		default:
			return kills
		}
	}
}

// TestPagesAfterCrash kills flows that read an API when they ask for some page, with a checkpoint that is seldom
// written: the server answers every page once, and every item is in the output once.
func TestPagesAfterCrash(t *testing.T) {
	const items, limit = 120, 3
	stac, err := stactest.New(stactest.Options{Items: stactest.Generate("made", items)})
	if err != nil {
		t.Fatal(err)
	}
	list := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, _ := strconv.Atoi(r.URL.Query().Get("from"))
		page := map[string]any{}
		var rows []any
		for i := from; i < min(from+limit, items); i++ {
			rows = append(rows, map[string]any{"id": fmt.Sprint("i", i), "text": strings.Repeat("x", i)})
		}
		if page["rows"] = rows; from+limit < items {
			page["next"] = fmt.Sprintf("/list?from=%d", from+limit)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(mustJSON(page)) //nolint:errcheck // who asked may be gone
	})
	for name, tt := range map[string]struct {
		pages  http.Handler
		paged  string
		source func(url string) string
		lost   int // items that fail on their way
	}{
		"STAC API": {stac, "/search", func(url string) string {
			return fmt.Sprintf("module: stac.ingest, config: {catalog_url: %q, collection_id: made, limit: %d}", url, limit)
		}, 0},
		"STAC API up to max_items": {stac, "/search", func(url string) string {
			return fmt.Sprintf("module: stac.ingest, config: {catalog_url: %q, collection_id: made, limit: %d, max_items: 100}", url, limit)
		}, items - 100},
		"list": {list, "/list", func(url string) string {
			return fmt.Sprintf("module: stream.pages, config: {url: %q, items: rows, next: {link: next}}", url+"/list")
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &pageServer{pages: tt.pages, paged: func(path string) bool { return path == tt.paged }, answered: map[string]int{},
				kill: map[int]bool{1: true, 2: true, 7: true, 20: true, 21: true, 33: true}}
			server := httptest.NewServer(s)
			defer func() { server.CloseClientConnections(); server.Close() }()
			dir := t.TempDir()
			for file, text := range map[string]string{
				"stepwell.yaml": "http: {allow_private: true}\nlog: {level: warn}\n",
				"flow.yaml": "name: pages\nsettings: {streams: {checkpoint_interval_seconds: 3600}}\nsteps:\n- {id: read, " + tt.source(server.URL) + "}\n" +
					"- {id: write, module: stream.write, depends_on: [read], config: {path: out.ndjson}}\n",
			} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if kills := s.run(t, dir); kills != 6 {
				t.Errorf("%d kills", kills)
			}
			for page, n := range s.answered {
				if n != 1 {
					t.Errorf("%s was answered %d times", page, n)
				}
			}
			text, err := os.ReadFile(filepath.Join(dir, "out.ndjson"))
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			for line := range strings.Lines(string(text)) {
				var row struct{ ID string }
				if err := json.Unmarshal([]byte(line), &row); err != nil || seen[row.ID] {
					t.Errorf("%s: %v", line, err)
				}
				seen[row.ID] = true
			}
			if len(seen) != items-tt.lost {
				t.Errorf("%d items of %d", len(seen), items-tt.lost)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, ".stepwell", "*", "*", "*", "*.pages")); len(left) > 0 {
				t.Errorf("kept pages are left: %v", left)
			}
		})
	}
}
