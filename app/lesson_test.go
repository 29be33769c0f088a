package app_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/fakeai"
	"github.com/stepwell/stepwell/store"
)

// TestLessonExample runs examples/lesson.yaml for a lesson: its file is transcribed, whatever the parameters say, the glossary is made of
// the transcript, and tokens and sound of all steps are added up.
func TestLessonExample(t *testing.T) {
	fake, err := fakeai.New(fakeai.Options{Key: "a-key-for-the-fake", Faults: "rate_limit=4,retry_after=0.1,invalid"})
	if err != nil {
		t.Fatal(err)
	}
	service := httptest.NewServer(fake)
	t.Cleanup(service.Close)
	dir := t.TempDir()
	sound := filepath.Join(dir, "lesson.mp3")
	text, err := os.ReadFile("../examples/lesson.yaml")
	if err == nil {
		err = os.WriteFile(sound, make([]byte, 160_000), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(t.Context(), app.Options{DB: filepath.Join(dir, "a.db"), HTTP: outbound.Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := a.Secrets.Vault.Set(ctx, "ai_key", "a-key-for-the-fake", 0, "test"); err != nil {
		t.Fatal(err)
	}
	d, problems := definition.Parse(text, definition.ParseOptions{File: "lesson.yaml"})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	p, err := a.Conductor.Register(ctx, d)
	if err != nil {
		t.Fatal(err)
	}
	about, err := json.Marshal(map[string]any{"project": map[string]any{"id": "p", "name": "Biology"},
		"lesson": map[string]any{"id": "l", "name": "Leaves", "media": map[string]any{"path": sound, "type": "audio/mpeg", "bytes": 160_000}}})
	if err != nil {
		t.Fatal(err)
	}
	id, err := a.Conductor.Start(ctx, conductor.Request{Pipeline: p, About: about, Params: map[string]any{"url": service.URL + "/v1", "file": "another.mp3"}})
	if err != nil {
		t.Fatal(err)
	}
	x := completed(t, a, id)
	steps, err := a.Store.Steps(ctx, x.No, store.StepFilter{})
	if err != nil {
		t.Fatal(err)
	}
	var audio, tokens int64
	for _, s := range steps {
		audio, tokens = audio+s.AudioMillis, tokens+s.OutputTokens
		if s.OutputTokens == 0 && s.Key != "transcribe" {
			t.Errorf("%s has no tokens", s.Key)
		}
		if s.Key == "quiz" && s.Attempt != 2 {
			t.Errorf("quiz: attempt %d", s.Attempt)
		}
	}
	if audio != 10_000 || tokens == 0 || len(steps) != 5 {
		t.Errorf("%d steps, %d ms of sound, %d tokens", len(steps), audio, tokens)
	}
	w := httptest.NewRecorder()
	fake.ServeHTTP(w, httptest.NewRequest("GET", "/requests", nil))
	asked := w.Body.String()
	if !strings.Contains(asked, `"name":"lesson.mp3","bytes":160000`) || strings.Count(asked, `"content":"This is lesson.mp3`) < 2 {
		t.Errorf("asked: %s", asked)
	}
}

// completed waits for an execution to complete.
func completed(t *testing.T, a *app.App, id string) *store.Execution {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		x, err := a.Store.Execution(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if x.Status == stepwell.ExecutionCompleted {
			return x
		}
		if x.Status.Terminal() {
			t.Fatalf("%s: %+v", x.Status, x.Failure)
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("it does not end")
		}
	}
}
