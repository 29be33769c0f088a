package output

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/streamtest"
)

// TestKilledWhilePublishing kills a run at each change that it makes at the place, and goes on with the state of its last
// Commit, or, once more cut off, of the next: what it gave is there then, and of what was there before what the mode says.
func TestKilledWhilePublishing(t *testing.T) {
	if os.Getenv("STEPWELL_TEST_CHANGES") != "" {
		publishUntilKilled(t)
		return
	}
	for _, c := range []struct {
		name string
		more map[string]any
		want []*stream.Item // besides after()
	}{
		{"json", map[string]any{"write": "replace"}, nil},
		{"json", map[string]any{"write": "replace", "organize_by": "item_id"}, nil},
		{"json flat", map[string]any{"write": "replace", "collection_id": ""}, nil},
		{"catalog", map[string]any{"write": "replace"}, nil},
		{"catalog", map[string]any{"write": "replace", "split": ""}, nil},
		{"parquet parts", map[string]any{"write": "replace"}, nil},
		{"parquet parts", map[string]any{"write": "upsert"}, kept("item-00003", "item-00002")},
		{"parquet parts", map[string]any{"write": "append", "base_dir": "out/more"}, nil},
		{"parquet one", map[string]any{"write": "replace"}, nil},
		{"parquet one", map[string]any{"write": "upsert"}, kept("item-00003", "item-00002")},
	} {
		config := maps.Clone(fileFormats[c.name])
		maps.Copy(config, c.more)
		t.Run(fmt.Sprint(c.name, c.more), func(t *testing.T) {
			t.Parallel()
			for changes := 1; ; changes++ {
				b := newBench(t, config)
				if config["write"] != "append" { // so that no item is there twice
					b.run(nil, before()...)
				}
				again := b.other("again", nil)
				state, ended := again.publishingChild(changes)
				if ended {
					t.Logf("%d changes", changes-1)
					if changes < 3 {
						t.Error("too few to be killed at")
					}
					again.wantPublished(append(after(), c.want...))
				}
				if ended || t.Failed() {
					return
				}
				sink := again.mustOpen(state)
				again.write(sink, after()[3:5]...)
				if changes%2 == 0 {
					durable := again.commit(sink, 2)
					sink.Abandon()
					sink = again.mustOpen(durable)
				}
				again.write(sink, after()[5:]...)
				_, out := again.close(sink)
				want := append(after(), c.want...)
				again.wantPublished(want)
				if n := out["manifest"].(manifest).TotalItems; out["items_written"] != int64(len(after())) || n != int64(len(want)) {
					t.Errorf("written %v, manifest %d", out["items_written"], n)
				}
				if t.Failed() {
					t.Fatalf("killed at change %d", changes)
				}
			}
		})
	}
}

// before is what is at the place, after what the run gives: items that stay, change, go and come, and collections too.
func before() []*stream.Item { return append(stacItems("s2", 0, 5), stacItems("gone", 20, 22)...) }

func after() []*stream.Item {
	changed := stacItem("s2", "item-00002", 1234)
	return append([]*stream.Item{stacItem("s2", "item-00003", 3), changed}, append(stacItems("s2", 5, 8), stacItems("l8", 30, 33)...)...)
}

// kept is before() without some.
func kept(without ...string) (items []*stream.Item) {
	for _, it := range before() {
		if !slices.Contains(without, it.ID()) {
			items = append(items, it)
		}
	}
	return items
}

// wantPublished looks for exactly these items, and for nothing hidden.
func (b *bench) wantPublished(want []*stream.Item) {
	b.t.Helper()
	b.wantFound(want...)
	if b.config["format"] == "catalog" {
		if n := len(b.crawl("out", "catalog.json")); n != len(want) {
			b.t.Errorf("the crawl finds %d items", n)
		}
	}
	if left := b.stages(); len(left) > 0 {
		b.t.Errorf("stages are left: %v", left)
	}
	for _, name := range b.files("out") {
		if b.config["write"] == "replace" && strings.Contains(name, "gone") {
			b.t.Errorf("%s is left of a collection that the run does not have", name)
		}
	}
}

// stages are the hidden directories of runs that replace.
func (b *bench) stages() (names []string) {
	b.t.Helper()
	entries, err := os.ReadDir(b.path("out/" + hidden))
	if err != nil && !os.IsNotExist(err) {
		b.t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "stage-") {
			names = append(names, e.Name())
		}
	}
	return names
}

// publishingChild runs a child that writes after() and publishes it, until so many changes.
func (b *bench) publishingChild(changes int) (state json.RawMessage, ended bool) {
	b.t.Helper()
	config, err := json.Marshal(b.config)
	if err != nil {
		b.t.Fatal(err)
	}
	cmd := exec.CommandContext(b.t.Context(), os.Args[0], "-test.run=^TestKilledWhilePublishing$")
	cmd.Env = append(os.Environ(), "STEPWELL_TEST_CONFIG="+string(config), "STEPWELL_TEST_DIR="+b.rig.Env.Dir,
		"STEPWELL_TEST_DATA="+b.rig.Env.Data, fmt.Sprint("STEPWELL_TEST_CHANGES=", changes), "TMPDIR="+b.t.TempDir())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		switch text := lines.Text(); {
		case strings.HasPrefix(text, "{"):
			state = json.RawMessage(text)
		case text == "ended":
			ended = true
		}
	}
	if err := cmd.Wait(); err == nil != ended || state == nil {
		b.t.Errorf("the child: %v, state %s", err, state)
	}
	return state, ended
}

func publishUntilKilled(t *testing.T) {
	var config map[string]any
	if err := json.Unmarshal([]byte(os.Getenv("STEPWELL_TEST_CONFIG")), &config); err != nil {
		t.Fatal(err)
	}
	changes := 0
	if _, err := fmt.Sscan(os.Getenv("STEPWELL_TEST_CHANGES"), &changes); err != nil {
		t.Fatal(err)
	}
	rig := streamtest.New(t)
	rig.Env.Dir, rig.Env.Data, rig.Env.Run = os.Getenv("STEPWELL_TEST_DIR"), os.Getenv("STEPWELL_TEST_DATA"), "again"
	c, err := rig.Open(Modules(Options{})[0], config)
	if err != nil {
		t.Fatal(err)
	}
	sink, ctx := c.(stream.Sink), context.Background()
	if err := sink.Write(ctx, after()[:3]); err != nil {
		t.Fatal(err)
	}
	_, state, err := sink.Commit(ctx)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(string(text))
	var place *place
	switch sink := sink.(type) {
	case *tree:
		place = sink.place
	case *table:
		place = sink.place
	}
	place.changed = func() {
		if changes--; changes == 0 {
			p, err := os.FindProcess(os.Getpid())
			if err == nil {
				err = p.Kill()
			}
			if err == nil {
				select {}
			}
			t.Fatal(err)
		}
	}
	if err := sink.Write(ctx, after()[3:]); err != nil {
		t.Fatal(err)
	}
	if _, _, err := sink.Close(ctx); err != nil {
		t.Fatal(err)
	}
	fmt.Println("ended")
}

// TestReplaceGrouped replaces what a manifest tells of by directories, as it does when there are many files: the items
// below them go, and what is not of the output stays.
func TestReplaceGrouped(t *testing.T) {
	for dir, config := range map[string]map[string]any{
		"./":        {"format": "json", "base_dir": "out", "organize_by": "item_id"},
		"s2/":       {"format": "catalog", "base_dir": "out", "split": "{properties.platform}"},
		"s2/items/": {"format": "json", "base_dir": "out"},
		".":         {"format": "json", "base_dir": "out", "organize_by": "flat"},
	} {
		config["write"] = "replace"
		b := newBench(t, config)
		_, out := b.run(nil, stacItems("s2", 0, 6)...)
		m := out["manifest"].(manifest)
		m.Grouped, m.Files = true, []listed{{Path: strings.TrimSuffix(dir, "/") + "/", Items: 6}}
		text, err := json.Marshal(m)
		if err == nil {
			err = os.WriteFile(b.path("out/manifest.json"), text, 0o600)
		}
		if err == nil {
			err = os.MkdirAll(b.path("out/mine"), 0o755)
		}
		if err == nil {
			err = os.WriteFile(b.path("out/mine/map.json"), []byte(`{"type":"FeatureCollection"}`), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		b.other("second", nil).run(nil, stacItems("s2", 4, 7)...)
		b.wantFound(stacItems("s2", 4, 7)...)
		if _, err := os.Stat(b.path("out/mine/map.json")); err != nil {
			t.Error("what is not ours is gone: ", err)
		}
	}
}

// TestManifestOfOthers has two runs upsert different collections: the manifest of the second tells of both, so that a run
// that replaces later takes both away.
func TestManifestOfOthers(t *testing.T) {
	for _, format := range []string{"ndjson", "parquet"} {
		b := newBench(t, map[string]any{"format": format, "base_dir": "out"})
		b.run(nil, stacItems("s2", 0, 3)...)
		_, out := b.other("second", map[string]any{"buffer_size": 7}).run(nil, stacItems("l8", 0, 2)...)
		if n := out["manifest"].(manifest).TotalItems; n != 5 {
			t.Errorf("%s: the manifest tells of %d items", format, n)
		}
		b.other("third", map[string]any{"write": "replace"}).run(nil, stacItems("l9", 0, 2)...)
		b.wantFound(stacItems("l9", 0, 2)...)
	}
}

// TestDeadStages has runs that replace die, before or while they publish, and nobody goes on with them: the next finished
// run at the place leaves nothing of them, and the stage of one that lives alone.
func TestDeadStages(t *testing.T) {
	for name, config := range map[string]map[string]any{
		"json": fileFormats["json"], "flat": fileFormats["json flat"], "catalog": fileFormats["catalog"], "item_id": {"format": "json", "output_path": "out"},
	} {
		config = maps.Clone(config)
		config["write"], config["collection_id"] = "replace", ""
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, config)
			b.run(nil, before()...)
			dead := b.other("dead", nil)
			sink := dead.mustOpen(nil)
			dead.write(sink, stacItems("s2", 50, 53)...)
			state := dead.commit(sink, 3)
			sink.Abandon()
			if len(b.stages()) != 1 {
				t.Fatalf("stages: %v", b.stages())
			}
			b.other("next", nil).run(nil, stacItems("s2", 50, 52)...)
			b.wantPublished(stacItems("s2", 50, 52))
			if _, err := dead.open(state); !errors.Is(err, stream.ErrStateGone) {
				t.Errorf("the run whose stage is gone continues: %v", err)
			}

			published := b.other("again", nil)
			if _, ended := published.publishingChild(3); ended {
				t.Fatal("it was not killed")
			}
			b.other("last", nil).run(nil, stacItems("s2", 60, 61)...)
			b.wantPublished(stacItems("s2", 60, 61))
		})
	}
	t.Run("upsert", func(t *testing.T) {
		config := map[string]any{"format": "json", "base_dir": "out"}
		b := newBench(t, config)
		dead := b.other("dead", map[string]any{"write": "replace"})
		sink := dead.mustOpen(nil)
		dead.write(sink, stacItems("s2", 50, 53)...)
		dead.commit(sink, 3)
		sink.Abandon()
		b.run(nil, before()...)
		b.wantPublished(before())
	})
	t.Run("alive", func(t *testing.T) {
		b := newBench(t, map[string]any{"format": "json", "base_dir": "out", "write": "replace", "collection_id": "s2"})
		alive := b.other("alive", map[string]any{"collection_id": "l8"})
		sink := alive.mustOpen(nil)
		alive.write(sink, stacItems("l8", 0, 3)...)
		alive.commit(sink, 3)
		b.run(nil, stacItems("s2", 0, 3)...)
		if len(b.stages()) != 1 {
			t.Errorf("stages: %v", b.stages())
		}
		alive.close(sink)
		b.wantPublished(append(stacItems("s2", 0, 3), stacItems("l8", 0, 3)...))
	})
}
