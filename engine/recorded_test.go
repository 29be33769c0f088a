package engine

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"
)

// recorded is the log of one run as an earlier version has written it, and the state that it had then.
type recorded struct {
	ID    string            `json:"id"`
	Doc   string            `json:"doc"`
	Log   []json.RawMessage `json:"log"`
	Blobs map[string]string `json:"blobs"`
	State []string          `json:"state"`
}

// TestRecorded: what earlier versions have recorded gives the state that it gave then. The file is never
// rewritten; a later Revision adds its own.
func TestRecorded(t *testing.T) {
	raw, err := os.ReadFile("testdata/recorded/revision1.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	for line := range strings.Lines(string(raw)) {
		var rec recorded
		if err := json.Unmarshal([]byte(line), &rec); err != nil {
			t.Fatal(err)
		}
		h := newHarness(t, compile(t, rec.Doc))
		h.run.ID = rec.ID
		for _, batch := range rec.Log {
			h.log = append(h.log, batch)
		}
		for ref, content := range rec.Blobs {
			h.blobs[ref] = []byte(content)
		}
		if got, want := strings.Join(state(h.replayed()), "\n"), strings.Join(rec.State, "\n"); got != want {
			t.Errorf("%s\n%s", rec.Doc, firstDifference(want, got))
		}
		runs++
	}
	if runs < 80 {
		t.Errorf("only %d recorded runs", runs)
	}
}

func state(r *Run) []string {
	out := []string{fmt.Sprintf("%v %s %s seq %d next %d", r.status, canonical(r.failure), r.outputs, r.seq, r.next)}
	r.visit(func(p place) {
		n := p.node()
		out = append(out, fmt.Sprintf("%d %s %v attempt %d epoch %d seq %d", p.idx(), p.key(), n.status, n.attempt, n.epoch, n.seq))
	})
	for _, timer := range r.Pending() {
		out = append(out, fmt.Sprintf("timer %d %d %d", timer.Idx, timer.Epoch, timer.At))
	}
	return out
}

// TestNodeSize: there may be millions of them.
func TestNodeSize(t *testing.T) {
	if size := unsafe.Sizeof(node{}); size != 40 {
		t.Errorf("a node has %d bytes", size)
	}
}
