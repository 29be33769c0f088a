package feed

import (
	"testing"
	"time"

	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/estimate"
	"github.com/stepwell/stepwell/store"
)

// TestStretchEndsBetweenVersions: lines that may go on end a stretch, but not within a version: other reads up to its
// end read whole versions.
func TestStretchEndsBetweenVersions(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	s := span{moreLines: true, lines: []store.LogLine{{Seq: 4, At: at(2)}, {Seq: 9, At: at(4)}}, events: []engine.HistoryEvent{
		{Version: 1, Type: "queued", StepKey: "a", At: at(1)}, {Version: 2, Type: "started", StepKey: "a", At: at(3)},
		{Version: 2, Type: "completed", StepKey: "a", At: at(5)}, {Version: 2, Type: "timer", At: at(6)}, {Version: 3, Type: "queued", StepKey: "b", At: at(7)}}}
	pages, end := s.merge(&estimate.Progress{})
	if want := (Cursor{Version: 2, Log: 9}); end != want {
		t.Errorf("it ends at %s, want %s", end, want)
	}
	var got []string
	for _, p := range pages {
		for _, m := range p.messages {
			got = append(got, m.Cursor.String())
		}
	}
	want := []string{"1-0", "1-4", "2.1-4", "2.1-9", "2.2-9"}
	if len(got) != len(want) {
		t.Fatalf("places %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("places %v, want %v", got, want)
		}
	}
}
