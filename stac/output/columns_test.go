package output

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/parquet"
)

// valued are items whose n is given as JSON.
func valued(from int, values ...string) (items []*stream.Item) {
	for i, text := range values {
		v, err := item.Parse([]byte(text))
		if err != nil {
			panic(err)
		}
		it := stacItem("s2", fmt.Sprintf("item-%05d", from+i), from+i)
		it.Get("properties").Set("n", v)
		items = append(items, it)
	}
	return items
}

// kinds are the kinds of column n in the Parquet files of an output, in the order of their names.
func (b *bench) kinds() (kinds []string) {
	b.t.Helper()
	for _, name := range b.files("out") {
		if !strings.HasSuffix(name, ".parquet") {
			continue
		}
		text, err := os.ReadFile(b.path("out/" + name))
		if err != nil {
			b.t.Fatal(err)
		}
		f, err := parquet.Open(strings.NewReader(string(text)), int64(len(text)))
		if err != nil {
			b.t.Fatal(err)
		}
		s := f.Schema()
		if at := slices.IndexFunc(s, func(c parquet.Field) bool { return c.Name == "n" }); at >= 0 {
			kinds = append(kinds, s[at].Type.Kind.String())
		} else {
			kinds = append(kinds, "none")
		}
	}
	return kinds
}

// TestColumnsOfEarlierRuns: what is written already says what a column holds. The runs write in turn, each is cut off
// in the middle and goes on, and parts of three items make some runs begin several.
func TestColumnsOfEarlierRuns(t *testing.T) {
	wide := "1152921504606846977" // 2^60 + 1
	for name, c := range map[string]struct {
		runs    [][]string
		refused int
		mixed   bool
		parts   string // kinds of n in a file per run
		one     string // in the one file
	}{
		"text after int":   {runs: [][]string{{"1", "2"}, {`"six"`, "7", "8"}}, refused: 1, parts: "int int", one: "int"},
		"int after text":   {runs: [][]string{{`"a"`}, {"1", `"b"`}, {"2"}}, refused: 2, parts: "text text", one: "text"},
		"double after int": {runs: [][]string{{"1"}, {"2.5", "3"}, {"4"}}, parts: "int double double", one: "double"},
		"int after double": {runs: [][]string{{"1.5"}, {"2"}}, parts: "double double", one: "double"},
		"wide int":         {runs: [][]string{{wide}, {"2.5", "3"}}, refused: 1, parts: "int int", one: "int"},
		"large double":     {runs: [][]string{{"12345678901234567890.1"}, {"12345678901234567000", "1"}}, parts: "double double", one: "double"},
		"large digits":     {runs: [][]string{{"12345678901234567000"}, {"1.5"}, {"1234567890123456800"}}, parts: "double double double", one: "double"},
		"after null":       {runs: [][]string{{"null"}, {"1"}, {`"a"`}}, refused: 1, parts: "unknown int", one: "int"},
		"object":           {runs: [][]string{{`{"a":1}`}, {`{"a":"x"}`, `{"b":"x"}`, "1"}}, refused: 2, parts: "struct struct", one: "struct"},
		"json":             {runs: [][]string{{"1", "2"}, {`"six"`, "7"}, {"8"}}, mixed: true, parts: "int json json", one: "json"},
	} {
		for _, single := range []bool{false, true} {
			t.Run(fmt.Sprint(name, single), func(t *testing.T) {
				config, want := map[string]any{"format": "parquet", "base_dir": "out"}, c.parts
				if single {
					config, want = map[string]any{"format": "parquet", "output_path": "out/all.parquet"}, c.one
				}
				if c.mixed {
					config["mixed_types"] = "json"
				}
				b := newBench(t, config)
				var state any
				at := 0
				for _, values := range c.runs {
					sink := b.mustOpen(state)
					state = b.commit(sink, 0)
					sink.Abandon()
					sink = b.mustOpen(state)
					items := valued(at, values...)
					b.write(sink, items[0])
					state = b.commit(sink, 1)
					sink.Abandon()
					state, _ = b.run(state, items[1:]...)
					at += len(items)
				}
				failures := b.rig.Failures()
				if got := len(b.found()); got != at-c.refused || len(failures) != c.refused {
					t.Errorf("%d of %d items are there, %d refused: %v", got, at, len(failures), failures)
				}
				for _, f := range failures {
					if !strings.Contains(f.Err.Error(), `column "n`) || !strings.Contains(stepwell.HintOf(f.Err), "mixed_types: json") {
						t.Errorf("failure %v, hint %q", f.Err, stepwell.HintOf(f.Err))
					}
				}
				if got := strings.Join(b.kinds(), " "); got != want {
					t.Errorf("n is %s, want %s", got, want)
				}
			})
		}
	}
}

// TestColumnsOfParts: parts of one run agree too, a part that is written anew keeps its columns, and in a schema of the
// first items those of an earlier run have their place.
func TestColumnsOfParts(t *testing.T) {
	b := newBench(t, map[string]any{"format": "parquet", "base_dir": "out", "part_rows": 2})
	state, _ := b.run(nil, valued(0, "1", "2", `"c"`, "4", "5", `"f"`, "7")...)
	if got := b.kinds(); len(b.rig.Failures()) != 2 || !slices.Equal(got, []string{"int", "int", "int"}) {
		t.Errorf("n is %v, failures %v", got, b.rig.Failures())
	}
	changed := valued(0, "10")
	b.run(state, append(changed, valued(20, "2.5", "3")...)...)
	if got := b.kinds(); !slices.Contains(got, "int") || len(b.found()) != 7 || b.found()["s2/item-00000"] != "10" {
		t.Errorf("n is %v, items %v", got, b.found())
	}

	b = newBench(t, map[string]any{"format": "parquet", "output_path": "out/all.parquet", "schema": "first_n", "first_n": 1})
	state, _ = b.run(nil, valued(0, "1", "2")...)
	without := valued(5, "1")
	without[0].Get("properties").Delete("n")
	without[0].Get("properties").Delete("platform")
	b.run(state, without...)
	if len(b.found()) != 3 || len(b.rig.Failures()) != 0 {
		t.Errorf("items %v, failures %v", b.found(), b.rig.Failures())
	}
}

// TestRejects: items that do not fit are in the file of rejects once each, also when the run is cut off between, and a later
// run adds its own.
func TestRejects(t *testing.T) {
	for _, name := range []string{"rejects.ndjson", "rejects.ndjson.gz"} {
		b := newBench(t, map[string]any{"format": "parquet", "base_dir": "out", "rejects": name})
		rejects := func(want ...string) {
			t.Helper()
			var got []string
			b.lines(name, func(v *item.Value) {
				id, _ := v.Get("id").Str()
				got = append(got, id)
			})
			if !slices.Equal(got, want) {
				t.Errorf("%s holds %v, want %v", name, got, want)
			}
		}
		sink := b.mustOpen(nil)
		items := valued(0, "1", `"b"`, "3", `"d"`)
		b.write(sink, items[:3]...)
		state := b.commit(sink, 3)
		b.write(sink, items[3:]...) // not committed: it comes again
		sink.Abandon()
		state, _ = b.run(state, items[3:]...)
		rejects("item-00001", "item-00003")
		state, _ = b.run(state, valued(10, "1")...)
		rejects("item-00001", "item-00003")
		b.run(state, valued(20, `"x"`)...)
		rejects("item-00001", "item-00003", "item-00020")
	}
}

// TestNothingHidden: an output of one file leaves no directory beside it, whether the run went through or on.
func TestNothingHidden(t *testing.T) {
	for name, config := range fileFormats {
		target, _ := config["output_path"].(string)
		if filepath.Ext(target) == "" {
			continue
		}
		b := newBench(t, config)
		sink := b.mustOpen(nil)
		b.write(sink, stacItems("s2", 0, 3)...)
		state := b.commit(sink, 3)
		sink.Abandon()
		for range 2 {
			state, _ = b.run(state, stacItems("s2", 3, 5)...)
			b.wantFound(stacItems("s2", 0, 5)...)
			entries, err := os.ReadDir(b.path("out"))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if strings.HasPrefix(e.Name(), ".") {
					t.Errorf("%s: %s is left", name, e.Name())
				}
			}
		}
	}
}
