package output

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/geoparquet"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/files"
	"github.com/stepwell/stepwell/stream/streamtest"
)

// fileFormats are the outputs that crash tests go through.
var fileFormats = map[string]map[string]any{
	"json":          {"format": "json", "base_dir": "out"},
	"json flat":     {"format": "json", "output_path": "out", "organize_by": "flat"},
	"catalog":       {"format": "catalog", "base_dir": "out", "max_links": 7, "split": "{properties.platform}"},
	"ndjson":        {"format": "ndjson", "base_dir": "out"},
	"ndjson gz":     {"format": "ndjson", "output_path": "out/all.ndjson.gz"},
	"ndjson zst":    {"format": "ndjson", "base_dir": "out", "compression": "zstd"},
	"ndjson flat":   {"format": "ndjson", "output_path": "out/all.jsonl"},
	"parquet":       {"format": "parquet", "base_dir": "out"},
	"parquet parts": {"format": "parquet", "base_dir": "out", "part_rows": 9},
	"parquet one":   {"format": "parquet", "output_path": "out/all.parquet"},
}

// found are the items of an output, "collection/id" to n, read without the sink.
func (b *bench) found() map[string]string {
	b.t.Helper()
	out := map[string]string{}
	add := func(doc *item.Value) {
		b.t.Helper()
		it := stream.New(doc, stream.Place{})
		key := it.Collection() + "/" + it.ID()
		if _, twice := out[key]; twice {
			b.t.Errorf("%s is there twice", key)
		}
		out[key] = string(doc.Get("properties").Get("n").Bytes())
	}
	for _, name := range b.files("out") {
		switch {
		case strings.HasSuffix(name, "manifest.json"):
		case strings.HasSuffix(name, ".json"):
			if doc := b.doc("out/" + name); doc.Get("geometry") != nil {
				add(doc)
			}
		case strings.HasSuffix(name, ".parquet"):
			b.rows("out/"+name, add)
		default:
			b.lines("out/"+name, add)
		}
	}
	return out
}

func (b *bench) rows(rel string, add func(*item.Value)) {
	b.t.Helper()
	f, err := os.Open(b.path(rel))
	if err != nil {
		b.t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		b.t.Fatal(err)
	}
	err = geoparquet.Each(context.Background(), f, info.Size(), 0, func(text []byte, _ int64) error {
		v, err := item.Parse(text)
		if err == nil {
			add(v)
		}
		return err
	})
	if err != nil {
		b.t.Fatalf("%s: %v", rel, err)
	}
}

func (b *bench) lines(rel string, add func(*item.Value)) {
	b.t.Helper()
	r, _, err := files.New(files.Options{}).Open(b.t.Context(), b.path(rel))
	if err != nil {
		b.t.Fatal(err)
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		b.t.Fatalf("%s: %v", rel, err)
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		b.t.Errorf("%s: the last line is torn", rel)
	}
	for line := range bytes.Lines(text) {
		v, err := item.Parse(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			b.t.Fatalf("%s: %v in %s", rel, err, line)
		}
		add(v)
	}
}

func (b *bench) wantFound(want ...*stream.Item) {
	b.t.Helper()
	got := b.found()
	for _, it := range want {
		key := it.Collection() + "/" + it.ID()
		if n := string(it.Get("properties").Get("n").Bytes()); got[key] != n {
			b.t.Errorf("%s is %q, want %s", key, got[key], n)
		}
		delete(got, key)
	}
	if len(got) > 0 {
		b.t.Errorf("%d items too many: %v", len(got), got)
	}
}

func (b *bench) items(from, to int) []*stream.Item {
	return append(stacItems("s2", from, to), stacItems("l8", from, to)...)
}

// TestResume cuts a stream off at Commit and behind it, again and again.
func TestResume(t *testing.T) {
	for name, config := range fileFormats {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, config)
			if name == "json flat" {
				config["collection_id"] = "s2"
			}
			items := func(from, to int) []*stream.Item { return b.items(from, to) }
			if name == "json flat" {
				items = func(from, to int) []*stream.Item { return stacItems("s2", from, to) }
			}
			var state any
			for at := 0; at < 40; at += 8 {
				sink := b.mustOpen(state)
				batch := items(at, at+8)
				b.write(sink, batch...)
				state = b.commit(sink, int64(len(batch)))
				b.write(sink, items(at+8, at+16)...) // what is not promised
				sink.Abandon()
			}
			state, out := b.run(state, items(40, 50)...)
			b.wantFound(items(0, 50)...)
			if want := int64(len(items(0, 50))); out["items_written"] != want {
				t.Errorf("items_written %v, want %d", out["items_written"], want)
			}
			// another run has nothing new, and the next one a few, some of which are changed
			state, _ = b.run(state)
			b.wantFound(items(0, 50)...)
			changed := stacItem("s2", "item-00004", 1234)
			_, out = b.run(state, append(items(50, 55), changed)...)
			want := slices.DeleteFunc(items(0, 55), func(it *stream.Item) bool { return it.ID() == changed.ID() && it.Collection() == "s2" })
			b.wantFound(append(want, changed)...)
			if m := out["manifest"].(manifest); m.TotalItems != int64(len(items(0, 55))) {
				t.Errorf("manifest %+v", m)
			}
			if strings.HasPrefix(name, "catalog") && len(b.crawl("out", "catalog.json")) != 110 {
				t.Error("the crawl does not find all items")
			}
			if f := b.rig.Failures(); len(f) > 0 {
				t.Errorf("failures %v", f)
			}
		})
	}
}

// TestStateGone changes the output behind the sink's back.
func TestStateGone(t *testing.T) {
	for name, config := range fileFormats {
		for _, closed := range []bool{false, true} {
			t.Run(fmt.Sprint(name, closed), func(t *testing.T) {
				b := newBench(t, config)
				sink := b.mustOpen(nil)
				b.write(sink, stacItems("s2", 0, 5)...)
				state := b.commit(sink, 5)
				if closed {
					state, _ = b.close(sink)
				} else {
					sink.Abandon()
				}
				if err := os.RemoveAll(b.path("out")); err != nil {
					t.Fatal(err)
				}
				again, err := b.open(state)
				if err == nil && !closed && strings.HasPrefix(name, "parquet") {
					again.Abandon() // nothing is in the output yet
				} else if !errors.Is(err, stream.ErrStateGone) {
					t.Errorf("the output is gone: %v", err)
				}
				if err := os.RemoveAll(b.rig.Env.Data); err != nil {
					t.Fatal(err)
				}
				if err := os.MkdirAll(b.rig.Env.Data, 0o755); err != nil {
					t.Fatal(err)
				}
				if _, err := b.open(state); !errors.Is(err, stream.ErrStateGone) {
					t.Errorf("the ledger is gone: %v", err)
				}
				b.run(nil, stacItems("s2", 0, 6)...)
				b.wantFound(stacItems("s2", 0, 6)...)
			})
		}
	}
}

// TestOneWriter is P7: a second run on the same output is refused, and a lock file that was left is not.
func TestOneWriter(t *testing.T) {
	for name, config := range fileFormats {
		b := newBench(t, config)
		sink := b.mustOpen(nil)
		b.write(sink, stacItems("s2", 0, 3)...)
		b.commit(sink, 3)
		other := newBench(t, config)
		other.rig.Env.Dir = b.rig.Env.Dir
		second, err := other.open(nil)
		if err == nil {
			err = second.Write(context.Background(), stacItems("s2", 0, 3))
			second.Abandon()
		}
		if stepwell.CodeOf(err) != stepwell.CodeConflict || stepwell.HintOf(err) == "" {
			t.Errorf("%s: a second writer: %v", name, err)
		}
		if _, err := b.open(nil); stepwell.CodeOf(err) != stepwell.CodeConflict {
			t.Errorf("%s: the same segment twice: %v", name, err)
		}
		b.close(sink)
		b.wantFound(stacItems("s2", 0, 3)...)
		other.run(nil, stacItems("s2", 0, 4)...)
	}
}

// TestParallelCollections writes two collections to one place at once, as segments behind a discovery do.
func TestParallelCollections(t *testing.T) {
	for _, format := range []string{"json", "catalog", "ndjson", "parquet"} {
		config := map[string]any{"format": format, "base_dir": "out"}
		first, second := newBench(t, config), newBench(t, config)
		second.rig.Env.Dir = first.rig.Env.Dir
		first.rig.Env.Collection, second.rig.Env.Collection = map[string]any{"id": "s2"}, map[string]any{"id": "l8"}
		a, b := first.mustOpen(nil), second.mustOpen(nil)
		first.write(a, stacItems("s2", 0, 5)...)
		second.write(b, stacItems("l8", 0, 5)...)
		first.close(a)
		second.close(b)
		first.wantFound(first.items(0, 5)...)
		if format == "catalog" && len(first.crawl("out", "catalog.json")) != 10 {
			t.Error("the catalog does not have both")
		}
	}
}

// TestKilled kills a process that writes, at random places, and goes on with the last state that it told.
func TestKilled(t *testing.T) {
	if os.Getenv("STEPWELL_TEST_CONFIG") != "" {
		writeUntilKilled(t)
		return
	}
	for name, config := range fileFormats {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, config)
			var state json.RawMessage
			done := 0
			for kill := 1; kill <= 5; kill++ {
				state, done = b.childUntil(state, done, kill*5+rand.N(5))
			}
			sink := b.mustOpen(state)
			for n := done; n < 200; n++ {
				b.write(sink, stacItem("s2", fmt.Sprintf("item-%05d", n), n))
			}
			b.close(sink)
			b.wantFound(stacItems("s2", 0, 200)...)
			if done == 0 {
				t.Error("the child has told of no state")
			}
		})
	}
}

// childUntil runs a child that writes from item done on, and kills it after so many commits.
func (b *bench) childUntil(state json.RawMessage, done, commits int) (json.RawMessage, int) {
	b.t.Helper()
	config, err := json.Marshal(b.config)
	if err != nil {
		b.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), "STEPWELL_TEST_CONFIG="+string(config), "STEPWELL_TEST_DIR="+b.rig.Env.Dir,
		"STEPWELL_TEST_DATA="+b.rig.Env.Data, "STEPWELL_TEST_STATE="+string(state), fmt.Sprint("STEPWELL_TEST_FROM=", done), "TMPDIR="+b.t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var told struct {
			Done  int
			State json.RawMessage
		}
		if json.Unmarshal(lines.Bytes(), &told) != nil {
			b.t.Errorf("the child says %s", lines.Text())
			continue
		}
		state, done = told.State, told.Done
		if _, err := in.Write([]byte("\n")); err != nil { // the state is kept: go on
			b.t.Error(err)
			break
		}
		if commits--; commits == 0 {
			for until := time.Now().Add(rand.N(4 * time.Millisecond)); time.Now().Before(until); { // anywhere in the next commit
			}
			cmd.Process.Kill()
			break
		}
	}
	io.Copy(io.Discard, out)
	cmd.Wait()
	return state, done
}

func writeUntilKilled(t *testing.T) {
	var config map[string]any
	if err := json.Unmarshal([]byte(os.Getenv("STEPWELL_TEST_CONFIG")), &config); err != nil {
		t.Fatal(err)
	}
	rig := streamtest.New(t)
	rig.Env.Dir, rig.Env.Data = os.Getenv("STEPWELL_TEST_DIR"), os.Getenv("STEPWELL_TEST_DATA")
	rig.Env.State = json.RawMessage(os.Getenv("STEPWELL_TEST_STATE"))
	c, err := rig.Open(Modules(Options{})[0], config)
	if err != nil {
		t.Fatal(err)
	}
	sink, from, kept := c.(stream.Sink), 0, bufio.NewReader(os.Stdin)
	fmt.Sscan(os.Getenv("STEPWELL_TEST_FROM"), &from)
	for n := from; n < 190; n++ {
		if err := sink.Write(context.Background(), []*stream.Item{stacItem("s2", fmt.Sprintf("item-%05d", n), n)}); err != nil {
			t.Fatal(err)
		}
		durable, state, err := sink.Commit(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(map[string]any{"Done": from + int(durable), "State": state})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(string(text))
		if _, err := kept.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	select {} // to be killed, and never to close
}
