package files

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/streamtest"
)

// nights runs a stream from in.ndjson to a file again and again, each time as an execution of its own.
type nights struct {
	t      *testing.T
	dir    string
	config map[string]any
	number int
	path   string
}

func newNights(t *testing.T, name string, config map[string]any) *nights {
	config["path"] = name
	return &nights{t: t, dir: t.TempDir(), config: config, path: name}
}

// run writes the rows that the source has this night.
func (n *nights) run(settings map[string]any, rows ...string) *streamtest.Outcome {
	n.t.Helper()
	put(n.t, n.dir, "in.ndjson", strings.Join(append(rows, ""), "\n"))
	n.number++
	steps := streamtest.Chain("stream.read", map[string]any{"path": "in.ndjson"}, "stream.write", n.config)
	s := streamtest.Segment{Modules: Modules(ModuleOptions{Places: New(Options{})}), Steps: steps, Settings: settings,
		Checkpoints: filepath.Join(n.dir, "checkpoints"), Dir: n.dir, Execution: fmt.Sprint("night", n.number)}
	if settings["goes_on"] == true {
		s.Settings, s.GoesOn = nil, fmt.Sprint("night", n.number-1)
	}
	return streamtest.Run(n.t.Context(), n.t, s)
}

// want runs a night and compares the ids that the file has afterwards, in order, with each id's n.
func (n *nights) want(want string, rows ...string) *streamtest.Outcome {
	n.t.Helper()
	out := n.run(nil, rows...)
	if out.Err != nil {
		n.t.Fatal(out.Err)
	}
	n.holds(want)
	return out
}

func (n *nights) holds(want string) {
	n.t.Helper()
	var got []string
	for _, row := range rowsOf(n.t, filepath.Join(n.dir, n.path)) {
		it := streamtest.Item(n.t, row)
		got = append(got, it.ID()+string(it.Get("n").Bytes()))
	}
	if text := strings.Join(got, " "); text != want {
		n.t.Errorf("night %d: %s, want %s", n.number, text, want)
	}
}

// nrow is a row with id a…z and a number.
func nrow(id string, n int) string { return fmt.Sprintf(`{"id":%q,"n":%d}`, id, n) }

// TestWriteModes runs the same stream on four nights in every format: `write` says what is there after each.
func TestWriteModes(t *testing.T) {
	first := []string{nrow("a", 1), nrow("b", 1), nrow("c", 1)}
	second := []string{nrow("a", 1), nrow("b", 2), nrow("d", 1)} // b has changed, c is gone, d is new
	for _, name := range []string{"a.ndjson", "a.ndjson.gz", "a.json", "a.geojson", "a.csv", "a.csv.zst", "a.tsv", "a.parquet"} {
		t.Run(name, func(t *testing.T) {
			n := newNights(t, name, map[string]any{})
			n.want("a1 b1 c1", first...)
			n.want("a1 b2 d1", second...)
			n.want("a1 b2 d1", second...)
			n.config["columns"] = []any{"id", "n"} // another config, of CSV at least
			if !strings.Contains(name, "csv") {
				delete(n.config, "columns")
				n.config["overwrite"] = true
			}
			n.want("c1", nrow("c", 1))

			n = newNights(t, name, map[string]any{"write": "append"})
			n.want("a1 b1 c1", first...)
			out := n.want("a1 b1 c1 b2 d1", second...)
			if skipped := fmt.Sprint(out.Outputs["stream.read"]["items_skipped"]); skipped != "1" {
				t.Errorf("%s items skipped, want 1", skipped)
			}
			n.config["extra"] = "drop"
			if !strings.Contains(name, "csv") && !strings.Contains(name, "tsv") {
				delete(n.config, "extra")
				n.config["key"] = "id"
			}
			n.want("a1 b1 c1 b2 d1 a1", nrow("a", 1)) // another config knows nothing of the nights before

			n = newNights(t, name, map[string]any{"write": "upsert", "key": "id"})
			n.want("a1 b1 c1", first...)
			n.want("a1 c1 b2 d1", second...)
			n.want("a1 c1 b2 d1", second...)
			n.config["keep"] = "last"
			n.want("a1 b2 d1 c3", nrow("c", 2), nrow("c", 3))
		})
	}
}

// TestWriteKeep gives one run two items of one key.
func TestWriteKeep(t *testing.T) {
	rows := []string{nrow("a", 1), nrow("b", 1), nrow("b", 1), nrow("a", 2), nrow("c", 1)}
	for keep, want := range map[string]string{"fail": "a1 b1 c1", "first": "a1 b1 c1", "last": "b1 a2 c1"} {
		for _, mode := range []string{"replace", "append", "upsert"} {
			n := newNights(t, "a.csv", map[string]any{"write": mode, "key": []any{"id"}, "keep": keep})
			out := n.want(want, rows...)
			left, failed := fmt.Sprint(out.Outputs["stream.write"]["items_left_out"]), len(out.Failures)
			if repeated := fmt.Sprint(out.Outputs["stream.write"]["items_repeated"]); repeated != "1" {
				t.Errorf("%s %s: %s repeated", mode, keep, repeated)
			}
			if keep == "fail" && (left != "0" || failed != 1) || keep != "fail" && (left != "1" || failed != 0) {
				t.Errorf("%s %s: %s left out, %d failed", mode, keep, left, failed)
			}
		}
	}
}

// TestNotReplaced keeps what is there when a run has nothing to put in its place.
func TestNotReplaced(t *testing.T) {
	n := newNights(t, "out/a.ndjson", map[string]any{})
	n.want("a1", nrow("a", 1))
	for what, rows := range map[string][]string{"every item failed": {"no JSON", "no JSON either"}, "the sources gave nothing": nil} {
		out := n.run(nil, rows...)
		if stepwell.CodeOf(out.Err) != stepwell.CodeNotReplaced || !strings.Contains(out.Err.Error(), what) {
			t.Errorf("%s: %v", what, out.Err)
		}
		n.holds("a1")
	}
	n.config["allow_empty"] = true
	if out := n.run(nil, "no JSON"); stepwell.CodeOf(out.Err) != stepwell.CodeNotReplaced {
		t.Error(out.Err)
	}
	n.holds("a1")
	n.want("")
	if left, err := os.ReadDir(filepath.Join(n.dir, "out")); err != nil || len(left) != 1 {
		t.Error(left, err)
	}
}

// TestReplaceGoesOn adds to what the run has left that this one retries, and to nothing else.
func TestReplaceGoesOn(t *testing.T) {
	n := newNights(t, "a.parquet", map[string]any{})
	n.want("a1", nrow("a", 1), "no JSON")
	out := n.run(map[string]any{"goes_on": true}, nrow("a", 1), nrow("b", 1))
	if out.Err != nil {
		t.Fatal(out.Err)
	}
	n.holds("a1 b1")
	n.want("b1", nrow("b", 1))
}

// TestReplaceCollections takes the files of collections away that a later run does not have.
func TestReplaceCollections(t *testing.T) {
	n := newNights(t, "out/{collection_id}.csv", map[string]any{})
	put(t, n.dir, "out/mine.csv", "id\n1\n")
	for night, rows := range [][]string{{`{"id":"a","collection":"x"}`, `{"id":"b","collection":"y"}`}, {`{"id":"b","collection":"y"}`}} {
		if out := n.run(nil, rows...); out.Err != nil {
			t.Fatal(out.Err)
		}
		if got, want := names(t, filepath.Join(n.dir, "out")), [][]string{{"mine.csv", "x.csv", "y.csv"}, {"mine.csv", "y.csv"}}[night]; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if out := n.run(nil); stepwell.CodeOf(out.Err) != stepwell.CodeNotReplaced {
		t.Error(out.Err)
	}
}

// TestSharedFile lets streams of one execution write to one file at once, if they add to it.
func TestSharedFile(t *testing.T) {
	for _, mode := range []string{"append", "upsert"} {
		for _, name := range []string{"a.ndjson", "a.json", "a.csv", "a.parquet"} {
			r := streamtest.New(t)
			_, m := modules(t)
			config := map[string]any{"path": name, "write": mode, "key": "id"}
			one, two := openSink(t, r, m, config), stream.Sink(nil)
			other := streamtest.New(t)
			other.Env.Dir = r.Env.Dir
			two = openSink(t, other, m, config)
			write(t, one, rowRange(0, 3)...)
			write(t, two, rowRange(3, 5)...)
			closeSink(t, two)
			closeSink(t, one)
			if got := rowsOf(t, filepath.Join(r.Env.Dir, name)); len(got) != 5 {
				t.Errorf("%s %s: %q", mode, name, got)
			}
			if got := names(t, r.Env.Dir); len(got) != 1 {
				t.Errorf("%s %s: left behind: %q", mode, name, got)
			}
		}
	}
}
