package postgres

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// FuzzText: every text is stored as one that PostgreSQL takes, and comes back.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "plain", "naïve 日本", "\x00", "\x01", "a\x01b", "\xff", "\xc3(", "\x01\x0100", "a\x00\xfe\x01"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		stored := encode(s)
		if !utf8.ValidString(stored) || bytes.IndexByte([]byte(stored), 0) >= 0 {
			t.Errorf("%q is stored as %q", s, stored)
		}
		if back := decode(stored); back != s {
			t.Errorf("%q comes back as %q", s, back)
		}
	})
}

// FuzzHead: the time and the queued steps that are taken out of a record are those of its batch.
func FuzzHead(f *testing.F) {
	f.Add(int64(5), `{"a":[1],"q":[[1,2]]}`, 3, true)
	f.Add(int64(1), `{"q":[[1]]}`, 0, false)
	f.Fuzz(func(t *testing.T, at int64, output string, queued int, spawn bool) {
		if !json.Valid([]byte(output)) || output[0] != '{' || at < 0 || at > 1<<55 {
			return
		}
		b := engine.Batch{At: at, Events: []engine.Event{{Kind: engine.Start, At: at, Begin: &engine.Begin{Params: []byte(output)}}, {Kind: engine.Done, Epoch: 1, At: at, Output: []byte(output), Kept: true}}}
		if spawn {
			b.Events[0], b.Events[1] = b.Events[1], b.Events[0]
		}
		for i := range int32(queued % 50) {
			b.Queued = append(b.Queued, 2*i+i%3)
		}
		log, err := engine.AppendBatch(nil, &b)
		if err != nil {
			return
		}
		gotAt, gotQueued, err := headOf(&store.Commit{Version: 1, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		want, err := engine.DecodeBatch(1, log)
		if err != nil {
			return
		}
		got, err := engine.AppendRuns(nil, gotQueued)
		if err != nil || gotAt != want.At || len(got) != len(want.Queued) {
			t.Errorf("%s: at %d, queued %s (%v), want %d, %v", log, gotAt, gotQueued, err, want.At, want.Queued)
		}
	})
}
