package output

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stream"
)

// other makes a bench for the same place: another run, or one with another config, that knows nothing of the first.
func (b *bench) other(run string, changes map[string]any) *bench {
	config := maps.Clone(b.config)
	maps.Copy(config, changes)
	o := newBench(b.t, config)
	o.module, o.rig.Env.Dir, o.rig.Env.Run = b.module, b.rig.Env.Dir, run
	return o
}

// TestWindows writes one window after the other, each by a config of its own, as nightly runs with other dates do:
// what is there adds up, and an item that comes again replaces the one that is there.
func TestWindows(t *testing.T) {
	for name, config := range fileFormats {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, config)
			b.run(nil, stacItems("s2", 0, 10)...)
			changed := stacItem("s2", "item-00004", 1234)
			b.other("second", map[string]any{"buffer_size": 7}).run(nil, append(stacItems("s2", 10, 15), changed)...)
			_, out := b.other("third", map[string]any{"buffer_size": 8}).run(nil, stacItems("s2", 15, 16)...)
			want := append(append(stacItems("s2", 0, 4), stacItems("s2", 5, 16)...), changed)
			b.wantFound(want...)
			if m := out["manifest"].(manifest); m.TotalItems != 16 {
				t.Errorf("the manifest tells of %d items", m.TotalItems)
			}
			if strings.HasPrefix(name, "catalog") && len(b.crawl("out", "catalog.json")) != 16 {
				t.Error("the crawl does not find all items")
			}
		})
	}
}

// TestReplace leaves exactly what the last run gave, and what was there before until then.
func TestReplace(t *testing.T) {
	for name, config := range fileFormats {
		t.Run(name, func(t *testing.T) {
			config = maps.Clone(config)
			config["write"] = "replace"
			b := newBench(t, config)
			first := stacItems("s2", 0, 10)
			if name != "json flat" {
				first = append(first, stacItems("l8", 0, 3)...)
			}
			b.run(nil, first...)
			if err := os.WriteFile(b.path("out/mine.txt"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			b.wantFound(first...)
			second := b.other("second", nil)
			sink := second.mustOpen(nil)
			second.write(sink, stacItems("s2", 5, 12)...)
			state := second.commit(sink, 7)
			b.wantFound(first...)
			sink.Abandon()
			sink = second.mustOpen(state)
			second.write(sink, stacItem("s2", "item-00005", 5), stacItem("s2", "last", 77))
			_, out := second.close(sink)
			want := append(stacItems("s2", 5, 12), stacItem("s2", "last", 77))
			b.wantFound(want...)
			if out["items_written"] != int64(8) || out["manifest"].(manifest).TotalItems != 8 {
				t.Errorf("outputs %v", out)
			}
			if _, err := os.Stat(b.path("out/mine.txt")); err != nil {
				t.Error("what is not ours is gone")
			}
			if name == "catalog" && len(b.crawl("out", "catalog.json")) != 8 {
				t.Error("the crawl does not find all items")
			}
			third := b.other("third", nil)
			_, _, err := third.mustOpen(nil).Close(context.Background())
			if stepwell.CodeOf(err) != stepwell.CodeNotReplaced {
				t.Errorf("a run without items: %v", err)
			}
			b.wantFound(want...)
		})
	}
}

// TestSharedPlace lets streams of one execution write to one place at the same time.
func TestSharedPlace(t *testing.T) {
	for name, config := range fileFormats {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, config)
			b.rig.Env.Run = "one"
			o := b.other("one", map[string]any{"buffer_size": 7})
			first, second := b.mustOpen(nil), o.mustOpen(nil)
			b.write(first, stacItems("s2", 0, 5)...)
			o.write(second, stacItems("s2", 5, 9)...)
			b.commit(first, 5)
			b.close(first)
			o.close(second)
			b.wantFound(stacItems("s2", 0, 9)...)
			if strings.HasPrefix(name, "catalog") && len(b.crawl("out", "catalog.json")) != 9 {
				t.Error("the crawl does not find all items")
			}
		})
	}
}

// TestFlatAmongOthers refuses an item whose file an item of another collection has, also when another stream wrote it.
func TestFlatAmongOthers(t *testing.T) {
	b := newBench(t, map[string]any{"format": "json", "base_dir": "out", "organize_by": "flat"})
	b.run(nil, stacItem("s2", "a", 1))
	o := b.other("second", nil)
	o.run(nil, stacItem("l8", "a", 2), stacItem("l8", "b", 3))
	b.wantFound(stacItem("s2", "a", 1), stacItem("l8", "b", 3))
	if f := o.rig.Failures(); len(f) != 1 || f[0].Item != "a" {
		t.Errorf("failures %v", f)
	}
}

// TestKeep gives one run two items of one id.
func TestKeep(t *testing.T) {
	for name, config := range fileFormats {
		for keep, n := range map[string]int{"first": 1, "last": 9} {
			config = maps.Clone(config)
			config["keep"] = keep
			b := newBench(t, config)
			_, out := b.run(nil, stacItem("s2", "a", 1), stacItem("s2", "b", 2), stacItem("s2", "a", 9))
			b.wantFound(stacItem("s2", "a", n), stacItem("s2", "b", 2))
			if out["items_left_out"] != int64(1) || out["items_written"] != int64(2) || len(b.rig.Failures()) > 0 {
				t.Errorf("%s %s: %v", name, keep, out)
			}
		}
	}
}

// TestUnsound has an output that is spoiled before its end: the step fails.
func TestUnsound(t *testing.T) {
	for format, file := range map[string]string{"json": "out/s2/items/item-00001.json", "catalog": "out/s2/item-00001.json"} {
		b := newBench(t, map[string]any{"format": format, "base_dir": "out"})
		sink := b.mustOpen(nil)
		b.write(sink, stacItems("s2", 0, 3)...)
		b.commit(sink, 3)
		if err := os.WriteFile(b.path(file), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := sink.Close(context.Background())
		if stepwell.CodeOf(err) != stepwell.CodeFailed || !strings.Contains(err.Error(), filepath.Base(file)) {
			t.Errorf("%s: %v", format, err)
		}
		sink.Abandon()
	}
}

// TestModesRefused names what a format does not have.
func TestModesRefused(t *testing.T) {
	for _, c := range []map[string]any{
		{"format": "json", "base_dir": "x", "write": "append"}, {"format": "catalog", "base_dir": "x", "write": "append"},
		{"format": "api", "url": "https://x.example", "write": "append"}, {"format": "api", "url": "https://x.example", "write": "replace"},
		{"format": "json", "base_dir": "x", "owns": "collection"}, {"format": "api", "url": "https://x.example", "on_conflict": "skip", "write": "upsert"},
		{"format": "json", "base_dir": "x", "allow_empty": true},
	} {
		if problems := Modules(Options{})[0].Check(c); len(problems) == 0 || stepwell.HintOf(errors.Join(problems...)) == "" {
			t.Errorf("%v: %v", c, problems)
		}
	}
	var _ stream.CollectionSink = (*tree)(nil)
}

// TestCollectionInPath writes each collection to the place that its id makes of the path, in every format.
func TestCollectionInPath(t *testing.T) {
	for _, c := range []struct {
		config map[string]any
		want   string
	}{
		{map[string]any{"format": "ndjson", "output_path": "out/{collection_id}.ndjson"}, "out/s2.ndjson"},
		{map[string]any{"format": "parquet", "output_path": "out/{collection_id}.parquet"}, "out/l8.parquet"},
		{map[string]any{"format": "json", "base_dir": "out/{collection_id}", "organize_by": "flat"}, "out/l8/item-00000.json"},
		{map[string]any{"format": "catalog", "base_dir": "out/{collection_id}"}, "out/s2/catalog.json"},
	} {
		b := newBench(t, c.config)
		sink := b.mustOpen(nil)
		b.write(sink, b.items(0, 3)...)
		state := b.commit(sink, 6)
		sink.Abandon()
		sink = b.mustOpen(state)
		b.write(sink, b.items(3, 5)...)
		state, out := b.close(sink)
		b.wantFound(b.items(0, 5)...)
		if _, err := os.Stat(b.path(c.want)); err != nil || out["items_written"] != int64(10) {
			t.Errorf("%v: %v, %v", c.config, err, out["items_written"])
		}
		b.run(state, b.items(5, 6)...)
		b.wantFound(b.items(0, 6)...)
	}
}
