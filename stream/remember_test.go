package stream_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/reshape"
	"github.com/stepwell/stepwell/stream/streamtest"
)

// TestRemembers: a step for which all items count sees them all again when the stream goes on, and so knows a
// duplicate of what was done before; nothing is written twice.
func TestRemembers(t *testing.T) {
	var items, want []string
	for i := range 3000 {
		text := fmt.Sprintf(`{"id":"%d","n":%d}`, i%1500, i) // each id twice, with different content
		items = append(items, text)
		if i < 1500 {
			want = append(want, text)
		}
	}
	dir, sink := t.TempDir(), streamtest.Collect("sink")
	stops := 0
	away := streamtest.Modifier("away", false, func(_ context.Context, it *stream.Item) (*stream.Item, error) {
		if n := number(it); stops < 4 && n == 400*(stops+1) {
			stops++
			return nil, stream.Abort(errors.New("away"))
		}
		return it, nil
	})
	var dedupe stream.Module
	for _, m := range reshape.Modules() {
		if m.Spec.Name == "stream.dedupe" {
			dedupe = m
		}
	}
	if dedupe.Spec.Stream == nil || !dedupe.Spec.Stream.Remembers || dedupe.Spec.Stream.Role != spec.Modifier {
		t.Fatal("stream.dedupe does not say that it remembers")
	}
	s := streamtest.Segment{Checkpoints: dir, Modules: []stream.Module{streamtest.Source("source", items...), dedupe, away, sink.Module()},
		Steps:    streamtest.Chain("source", nil, "stream.dedupe", map[string]any{"by": []any{"id"}}, "away", nil, "sink", nil),
		Settings: map[string]any{"batch": 10, "workers": 1, "checkpoint_interval": 0.001}}
	for streamtest.Run(t.Context(), t, s).Err != nil {
	}
	if stops < 2 {
		t.Fatalf("cut off %d times", stops)
	}
	if diff := cmp.Diff(want, sink.Items()); diff != "" {
		t.Error(diff)
	}
}
