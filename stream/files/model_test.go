package files

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/streamtest"
)

// TestWriteModel writes, commits, dies and ends at random, over several runs, with one file per collection, and
// sends again what was not committed, as a source does. At every end each file has every item once, in order,
// and nothing else is there.
func TestWriteModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := streamtest.New(t)
		suffix := rapid.SampledFrom([]string{"ndjson", "ndjson.gz", "json", "geojson", "csv.zst", "parquet"}).Draw(rt, "suffix")
		mode := rapid.SampledFrom([]string{"replace", "append", "upsert"}).Draw(rt, "mode")
		m := writeModel{rt: rt, t: t, r: r, suffix: suffix, config: map[string]any{"path": "{collection_id}." + suffix, "write": mode}}
		if mode == "upsert" {
			m.config["key"] = "id"
		}
		if mode == "append" && (strings.HasSuffix(suffix, "json") && suffix != "ndjson") {
			rt.Skip("refused")
		}
		m.open()
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			switch rapid.SampledFrom([]string{"write", "write", "write", "commit", "abandon", "kill", "end", "forget"}).Draw(rt, "do") {
			case "write":
				from := len(m.all)
				for range rapid.IntRange(1, 5).Draw(rt, "n") {
					m.all = append(m.all, fmt.Sprintf(`{"id":"i%d","collection":"c%d"}`, len(m.all), rapid.IntRange(0, 2).Draw(rt, "collection")))
				}
				write(t, m.s, m.all[from:]...)
			case "commit":
				m.state, m.committed = commit(t, m.s, int64(len(m.all)-m.begun)), len(m.all)
			case "abandon":
				m.s.Abandon()
				m.open()
			case "kill":
				m.kill()
				m.open()
			case "end":
				m.state, m.committed = m.end(), len(m.all)
				m.open()
			case "forget": // a death before the state of Close is kept; as in a stream, that of a Commit is before
				m.state, m.committed = commit(t, m.s, int64(len(m.all)-m.begun)), len(m.all)
				m.end()
				m.open()
			}
		}
		m.s.Abandon()
		if err := os.RemoveAll(r.Env.Dir); err != nil {
			t.Fatal(err)
		}
	})
}

// TestNextVersionInFewerBlocks dies after a Close whose file holds more items in a shorter spool, because the next
// version begins with all items of the one before in one block.
func TestNextVersionInFewerBlocks(t *testing.T) {
	r := streamtest.New(t)
	_, module := modules(t)
	config := map[string]any{"path": "a.parquet"}
	s := openSink(t, r, module, config)
	for i := range 7 {
		write(t, s, fmt.Sprintf(`{"id":"i%d"}`, i))
		commit(t, s, int64(i)+1)
	}
	r.Env.State, _ = closeSink(t, s)
	s = openSink(t, r, module, config)
	write(t, s, `{"id":"i7"}`)
	closeSink(t, s) // and its state is lost
	s = openSink(t, r, module, config)
	write(t, s, `{"id":"i7"}`)
	closeSink(t, s)
	if rows := rowsOf(t, filepath.Join(r.Env.Dir, "a.parquet")); len(rows) != 8 {
		t.Errorf("%d items: %q", len(rows), rows)
	}
}

type writeModel struct {
	rt        *rapid.T
	t         *testing.T
	r         *streamtest.Rig
	suffix    string
	config    map[string]any
	s         stream.Sink
	all       []string // items in order
	committed int      // of them, in state
	begun     int      // of them, before this sink
	state     json.RawMessage
}

// open opens the sink from the state and sends what it does not tell of.
func (m *writeModel) open() {
	_, module := modules(m.t)
	m.r.Env.State = m.state
	m.s = openSink(m.t, m.r, module, m.config)
	m.begun = m.committed
	write(m.t, m.s, m.all[m.committed:]...)
}

// kill leaves behind what a process that dies leaves behind: all files, but no lock that is held.
func (m *writeModel) kill() {
	left := map[string][]byte{}
	for _, dir := range []string{m.r.Env.Dir, m.r.Env.Data} {
		for _, name := range names(m.t, dir) {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				m.rt.Fatal(err)
			}
			left[filepath.Join(dir, name)] = text
		}
	}
	m.s.Abandon()
	for path, text := range left {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			m.rt.Fatal(err)
		}
	}
}

func (m *writeModel) end() json.RawMessage {
	closed, _ := closeSink(m.t, m.s)
	want := map[string][]string{}
	for _, row := range m.all {
		name := row[len(row)-4:len(row)-2] + "." + m.suffix
		want[name] = append(want[name], row)
	}
	got := map[string][]string{}
	for _, name := range names(m.t, m.r.Env.Dir) {
		got[name] = nil
		if name[0] != '.' {
			got[name] = rowsOf(m.t, filepath.Join(m.r.Env.Dir, name))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		m.rt.Fatal(diff)
	}
	return closed
}

// TestAppendIsCutOff: the second of two runs that append dies between its commits, and goes on: the journal tells of the
// first run's Close, not of this one's.
func TestAppendIsCutOff(t *testing.T) {
	r := streamtest.New(t)
	_, module := modules(t)
	config := map[string]any{"path": "a.ndjson", "write": "append"}
	s := openSink(t, r, module, config)
	for i := range 7 {
		write(t, s, fmt.Sprintf(`{"id":"i%d"}`, i))
	}
	r.Env.State, _ = closeSink(t, s)
	for round := range 2 {
		s = openSink(t, r, module, config)
		write(t, s, fmt.Sprintf(`{"id":"i%d"}`, 7+round))
		r.Env.State = commit(t, s, 1)
		s.Abandon()
	}
	s = openSink(t, r, module, config)
	write(t, s, `{"id":"i9"}`)
	closeSink(t, s)
	if rows := rowsOf(t, filepath.Join(r.Env.Dir, "a.ndjson")); len(rows) != 10 {
		t.Errorf("%d rows: %q", len(rows), rows)
	}
}
