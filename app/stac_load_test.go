package app_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stac/geoparquet/geoparquettest"
	"github.com/stepwell/stepwell/stac/stactest"
	"github.com/stepwell/stepwell/stream"
)

// many is a source that gives the items of a file again and again, each time with new ids.
type many struct {
	items []json.RawMessage
	n     int
}

// Read implements stream.Source.
func (m *many) Read(_ context.Context, _ iter.Seq[*stream.Item], out stream.Out) error {
	var templates []*item.Value
	for _, text := range m.items {
		v, err := item.Parse(text)
		if err != nil {
			return err
		}
		templates = append(templates, v)
	}
	for i := range m.n {
		v := templates[i%len(templates)].Clone()
		v.Set("id", item.OfText(fmt.Sprintf("%s-%06d", textOf(v.Get("id")), i)))
		if err := out.Item(stream.New(v, stream.Place{})); err != nil {
			return err
		}
	}
	return nil
}

// slow is a modifier that lets only so many items pass in a second.
type slow struct {
	ticker *time.Ticker
	n      int
}

// Modify implements stream.Modifier.
func (s *slow) Modify(ctx context.Context, it *stream.Item) (*stream.Item, error) {
	if s.n++; s.n%100 == 0 {
		select {
		case <-s.ticker.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return it, nil
}

// Close implements io.Closer.
func (s *slow) Close() error {
	s.ticker.Stop()
	return nil
}

// loadModules are test.many (path, n) and test.slow.
func loadModules() []stream.Module {
	return []stream.Module{{
		Spec: spec.Spec{Name: "test.many", Summary: "For tests.", Stream: &spec.Stream{Role: spec.Source},
			Params: []spec.Field{{Name: "path", Type: spec.String}, {Name: "n", Type: spec.Integer}}},
		Open: func(_ context.Context, env *stream.Env, config map[string]any) (any, error) {
			items, err := stactest.Lines(env.Path(fmt.Sprint(config["path"])))
			var n int
			if _, serr := fmt.Sscan(fmt.Sprint(config["n"]), &n); serr != nil {
				return nil, serr
			}
			return &many{items: items, n: n}, err
		},
	}, {
		Spec: spec.Spec{Name: "test.slow", Summary: "For tests.", Stream: &spec.Stream{Role: spec.Modifier}},
		Open: func(context.Context, *stream.Env, map[string]any) (any, error) {
			return &slow{ticker: time.NewTicker(12 * time.Millisecond)}, nil
		},
	}}
}

const teeDoc = `
name: tee
steps:
  - {id: many, module: test.many, config: {path: items.ndjson, n: @N@}}
  - {id: validate, module: stac.validate, depends_on: [many], config: {mode: offline, missing_schema: builtin}}
  - {id: table, module: stac.output, depends_on: [validate], config: {format: parquet, output_path: out/items.parquet}}
  - {id: slow, module: test.slow, depends_on: [many]}
  - {id: lines, module: stac.output, depends_on: [slow], config: {format: ndjson, output_path: out/items.ndjson}}
`

// TestP16 sends recorded items, again and again with new ids, to a table behind a validation and to lines behind a slow
// consumer: both have all of them, and the process stays small.
func TestP16(t *testing.T) {
	testP16(t, recordedItems(t, "planetarycomputer.microsoft.com__naip"), loadCount())
}

// TestP16Small is P16 on generated items.
func TestP16Small(t *testing.T) { testP16(t, sound(40), 5_000) }

func loadCount() int {
	if testing.Short() || raceEnabled {
		return 20_000
	}
	return 100_000
}

func testP16(t *testing.T, items []json.RawMessage, n int) {
	r := newStacRig(t)
	var text strings.Builder
	for _, it := range items {
		text.Write(it)
		text.WriteByte('\n')
	}
	r.file("items.ndjson", text.String())
	r.file("doc.yaml", fill(teeDoc, "N", fmt.Sprint(n)))
	began := time.Now()
	o, mib := r.measured()
	t.Logf("%d items in %s, %d MiB", n, time.Since(began).Round(time.Millisecond), mib)
	o.want(stepwell.ExecutionCompleted, 0)
	if limit := 300; mib > limit && !raceEnabled {
		t.Errorf("%d MiB, at most %d are allowed", mib, limit)
	}
	if got := r.countLines("out/items.ndjson"); got != n || o.count("table", "items_written") != n {
		t.Errorf("%d lines, table %s", got, o.steps["table"].Output)
	}
	rows := geoparquettest.Query(t, `SELECT count(*) AS n, count(DISTINCT id) AS ids FROM '`+filepath.Join(r.dir, "out/items.parquet")+`'`)
	if rows[0]["n"] != float64(n) || rows[0]["ids"] != float64(n) {
		t.Errorf("the table has %v", rows)
	}
}

func (r *streamRig) countLines(name string) (n int) {
	r.t.Helper()
	f, err := os.Open(filepath.Join(r.dir, name))
	if err != nil {
		r.t.Fatal(err)
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		n++
	}
	if in.Err() != nil {
		r.t.Fatal(in.Err())
	}
	return n
}

// measured runs doc.yaml in a process of its own; mib is the most memory that it had.
func (r *streamRig) measured() (o *outcome, mib int) {
	r.t.Helper()
	if runtime.GOOS != "linux" {
		r.t.Skip("left out: how much memory a stream takes, which Linux tells")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestP6$", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), stacChild+"="+r.dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(r.read("status")) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			if _, err := fmt.Sscan(rest, &mib); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	return r.look(), mib >> 10
}
