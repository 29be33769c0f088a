package httpcall_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"fmt"
	"testing"
	"time"
	"path/filepath"

	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/store"
)

func TestE2E(t *testing.T) {
	posts, polls := 0, 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == "POST" {
			posts++
			if posts == 1 {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(429)
				return
			}
			fmt.Fprint(w, `{"id": "j1"}`)
			return
		}
		polls++
		if polls < 3 {
			fmt.Fprint(w, `{"state": "running"}`)
			return
		}
		fmt.Fprintf(w, `{"state": "done", "path": %q}`, r.URL.Path)
	}))
	defer s.Close()
	a, err := app.New(t.Context(), app.Options{DB: filepath.Join(t.TempDir(), "x.db"), Log: slog.New(slog.DiscardHandler), HTTP: outbound.Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	if err != nil {
		t.Fatal(err)
	}
	d := &definition.Definition{Name: "one", Steps: []definition.Step{
		{ID: "first", Action: "util.set_output", Params: map[string]any{"outputs": map[string]any{"word": "done"}}},
		{ID: "a", Action: "util.http", DependsOn: []string{"first"}, Params: map[string]any{"url": s.URL + "/jobs", "json": map[string]any{"w": "{{ steps.first.outputs.word }}"},
			"poll": map[string]any{"job": "body.id", "url": s.URL + "/jobs/{{ job }}", "until": "{{ body.state == steps.first.outputs.word }}", "interval": 0.1},
			"outputs": map[string]any{"path": "body.path", "both": "{{ body.state }}-{{ steps.first.outputs.word }}", "bare": "steps.first.outputs.word"}}}}}
	p, err := a.Conductor.Register(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	id, err := a.Conductor.Start(t.Context(), conductor.Request{Pipeline: p})
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10*time.Second); time.Now().Before(end); {
		select { case err := <-done: t.Fatal("run: ", err); default: }
		x, err := a.Store.Execution(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		steps, err := a.Store.Steps(t.Context(), x.No, store.StepFilter{})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(x.Status, len(steps)); if x.Status.Terminal() || time.Now().After(end.Add(-200*time.Millisecond)) {
			t.Logf("%+v", x)
			for _, st := range steps {
				t.Logf("%+v\n%s\n%s", st.Status, st.Output, st.Input)
				t.Logf("%+v", st)
			}
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	cancel()
	<-done
	a.Close()
	t.Log(posts, polls)
}
