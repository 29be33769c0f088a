package engine

import (
	"encoding/json"
	"errors"
	"flag"
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

var recordTo = flag.String("record", "", "write what TestTranscripts runs to a new `file` of recorded logs")

// recorder collects the runs of the present revision.
type recorder struct{ lines []string }

func (r *recorder) add(h *harness) {
	if *recordTo == "" || len(h.log) == 0 || h.run.Revision() != Revision {
		return
	}
	rec := recorded{ID: h.run.ID, Doc: h.doc, Blobs: map[string]string{}, State: state(h.replayed())}
	for _, batch := range h.log {
		rec.Log = append(rec.Log, batch)
	}
	for ref, content := range h.blobs {
		rec.Blobs[ref] = string(content)
	}
	raw, err := json.Marshal(&rec)
	if err != nil {
		h.t.Fatal(err)
	}
	r.lines = append(r.lines, string(raw)+"\n")
}

// write makes the file, once.
func (r *recorder) write(t *testing.T) {
	if *recordTo == "" {
		return
	}
	f, err := os.OpenFile(*recordTo, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(strings.Join(r.lines, ""))
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestRecorded: logs recorded by earlier versions give the same state as then. The files are never rewritten; a later
// Revision adds its own (-run TestTranscripts -record testdata/recorded/revisionN.jsonl), and so does this one when
// it has decided something new since.
func TestRecorded(t *testing.T) {
	for name, least := range map[string]int{"revision1": 80, "revision2": 120} {
		t.Run(name, func(t *testing.T) { replayRecorded(t, name, least) })
	}
}

func replayRecorded(t *testing.T, name string, least int) {
	raw, err := os.ReadFile("testdata/recorded/" + name + ".jsonl")
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
	if runs < least {
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
