package feed_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/feed"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
)

// TestRealExecution, with a real conductor: every line comes before the end, and every iteration has its name.
func TestRealExecution(t *testing.T) {
	var h *running
	talk := action.Action{Spec: spec.Spec{Name: "t.talk", Summary: "For tests."}, Handler: action.HandlerFunc(func(_ context.Context, call *action.Call) (any, error) {
		for i := range 50 {
			call.Log(fmt.Sprint("line ", i))
		}
		return map[string]any{}, nil
	})}
	a, err := app.New(t.Context(), app.Options{DB: filepath.Join(t.TempDir(), "real.db"), Log: slog.New(slog.DiscardHandler),
		Register: func(r *action.Registry) error { return r.Add(talk) },
		Observe:  func(u *conductor.Update) { h.Observe(u) }, Logged: func(list []int64) { h.Lines(list) }})
	if err != nil {
		t.Fatal(err)
	}
	h = start(t, feed.Options{Store: a.Store})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	defer func() {
		h.stop()
		cancel()
		if err := errors.Join(<-done, a.Close()); err != nil {
			t.Error(err)
		}
	}()
	d := &definition.Definition{Name: "p", Steps: []definition.Step{{ID: "each", ForEach: &definition.ForEach{Items: 20}, Action: "t.talk"},
		{ID: "last", Action: "t.talk", DependsOn: []string{"each"}}}}
	p, err := a.Conductor.Register(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	for round := range 10 {
		id, err := a.Conductor.Start(t.Context(), conductor.Request{Pipeline: p})
		if err != nil {
			t.Fatal(err)
		}
		got := all(t, subscribe(t, h.Hub, id, "", feed.Filter{}))
		lines, statuses := told(t, got)
		x, err := a.Conductor.Wait(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		stored, err := a.Store.Logs(t.Context(), x.No, store.LogFilter{Limit: 10_000})
		if err != nil {
			t.Fatal(err)
		}
		if len(lines) != len(stored) || len(lines) != 21*50 {
			t.Errorf("round %d: %d lines before the end, %d are stored", round, len(lines), len(stored))
		}
		ends := 0
		for _, s := range statuses {
			if strings.Contains(s, " completed ") {
				ends++
			}
		}
		if ends != 22 || !slices.ContainsFunc(statuses, func(s string) bool { return strings.HasPrefix(s, "last completed") }) {
			t.Errorf("round %d: %d steps completed: %v", round, ends, statuses)
		}
		var end struct{ Status string }
		if err := json.Unmarshal(got[len(got)-1].Data, &end); err != nil || end.Status != "completed" {
			t.Errorf("round %d ends with %s", round, got[len(got)-1].Data)
		}
	}
}
