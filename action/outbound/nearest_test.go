package outbound

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/action"
)

// recordings writes recordings of requests into a folder, with large answers that nobody needs to read.
func recordings(t *testing.T, dir string, requests ...string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for i, text := range requests {
		parts := strings.SplitN(text, " ", 3)
		request := map[string]any{"method": parts[0], "url": parts[1]}
		if len(parts) == 3 {
			request["body"] = parts[2]
		}
		raw, err := json.Marshal(map[string]any{"recorded_at": "2026-11-29T00:00:00Z", "request": request, "response": map[string]any{"status": 200, "text": strings.Repeat("x", 1000)}})
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("%024x-1.json", i)), raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestNearest(t *testing.T) {
	root := t.TempDir()
	list := []string{"GET http://a/x/1", "GET http://a/x/2?q=1", "GET http://b/y", `POST http://a/x/1 {"n": 1}`, `POST http://a/x/1 {"n": 2, "m": 3}`, "DELETE http://c/deep/down/here"}
	for i := range 300 {
		list = append(list, fmt.Sprintf("GET http://many/%03d", i))
	}
	recordings(t, filepath.Join(root, "flow"), list...)
	recordings(t, filepath.Join(root, "other"), "PUT http://z/only")
	if err := os.WriteFile(filepath.Join(root, "flow", "broken.json"), []byte(`{"request": [`), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newReplayer(&action.Tape{Dir: filepath.Join(root, "flow"), Root: root})
	ended, end := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	end(stopped)
	if _, err := r.nearest(ended, &recording{}, 1); !errors.Is(err, stopped) {
		t.Errorf("with a context that has ended: %v", err)
	}
	for _, test := range []struct {
		wanted string
		n      int
		want   string
	}{
		{"GET http://a/x/2?q=2", 1, "; the nearest one recorded is GET http://a/x/2?q=1"},
		{"GET http://a/x/1", 3, "; the nearest one recorded is GET http://a/x/1, which was sent 2 times"},
		{"GET http://many/1234", 1, "; the nearest one recorded is GET http://many/123"},
		{`POST http://a/x/1 {"n": 2, "m": 4}`, 1, `; the nearest one recorded is POST http://a/x/1 with another body: "3}", now "4}"`},
		{"PATCH http://c/deep/down/there", 1, "; the nearest one recorded is DELETE http://c/deep/down/here"},
		{"PUT http://z/onl", 1, "; the nearest one recorded is PUT http://z/only, in " + filepath.Join(root, "other")},
	} {
		parts := strings.SplitN(test.wanted+" ", " ", 3)
		wanted := &recording{}
		wanted.Request.Method, wanted.Request.URL, wanted.Request.Body = parts[0], parts[1], strings.TrimSuffix(parts[2], " ")
		if got, err := r.nearest(t.Context(), wanted, test.n); err != nil || got != test.want {
			t.Errorf("%s: %q, %v, want %q", test.wanted, got, err, test.want)
		}
	}
	if err := os.RemoveAll(root); err != nil { // they have been read
		t.Fatal(err)
	}
	if got, err := r.nearest(t.Context(), &recording{}, 1); err != nil || got == "" {
		t.Errorf("again: %q, %v", got, err)
	}
}
