package update

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/files"
	"github.com/stepwell/stepwell/stream/streamtest"
)

var now = time.Date(2026, 2, 3, 4, 5, 6, 7_890_000, time.FixedZone("", 3600))

func module() stream.Module { return Modules(files.New(files.Options{}))[0] }

type object = map[string]any

// modify runs one item through the module.
func modify(t *testing.T, config object, text string) (string, error) {
	t.Helper()
	return modifyIn(t, streamtest.New(t), config, text)
}

func modifyIn(t *testing.T, rig *streamtest.Rig, config object, text string) (string, error) {
	t.Helper()
	if _, given := config["auto_update_timestamp"]; !given {
		config["auto_update_timestamp"] = false
	}
	rig.Env.Started = now
	c, err := rig.Open(module(), config)
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.(stream.Modifier).Modify(t.Context(), streamtest.Item(t, text))
	if err != nil {
		return "", err
	}
	return string(out.Bytes()), nil
}

const sample = `{"id":"a","collection":"c","properties":{"n":1.50,"title":"t"},"assets":{"ANG.txt":{"href":"x","roles":["a"]},"B4":{"href":"y"}},"providers":[{"name":"p"}]}`

func TestRules(t *testing.T) {
	for _, c := range []struct {
		name   string
		config object
		from   string // in sample
		to     string
	}{
		{"a new value", object{"updates": object{"properties.x": 1}}, `"title":"t"`, `"title":"t","x":1`},
		{"objects on the way", object{"updates": object{"properties.a.b.c": nil}}, `"title":"t"`, `"title":"t","a":{"b":{"c":null}}`},
		{"names of the item", object{"updates": object{"properties.title": "{item_id} of {collection_id}"}}, `"title":"t"`, `"title":"a of c"`},
		{"a value keeps its kind", object{"updates": object{"properties.title": "{properties.n}"}}, `"title":"t"`, `"title":1.50`},
		{"a pattern deep inside", object{"updates": object{"properties.title": object{"k": []any{"{item_id}", true}}}}, `"title":"t"`, `"title":{"k":["a",true]}`},
		{"the asset's key", object{"updates": object{"assets.*.href": "s3://b/{asset_key}"}}, `"assets":{"ANG.txt":{"href":"x","roles":["a"]},"B4":{"href":"y"}}`,
			`"assets":{"ANG.txt":{"href":"s3://b/ANG.txt","roles":["a"]},"B4":{"href":"s3://b/B4"}}`},
		{"a key with dots", object{"updates": object{`assets."ANG.txt".title`: "{asset_key}"}}, `"roles":["a"]`, `"roles":["a"],"title":"ANG.txt"`},
		{"an element of a list", object{"updates": object{"providers[0].roles": []any{"host"}}}, `"name":"p"`, `"name":"p","roles":["host"]`},
		{"lists are replaced", object{"updates": object{`assets."ANG.txt".roles`: []any{"b"}}}, `"roles":["a"]`, `"roles":["b"]`},
		{"only what is there", object{"updates": object{"properties.x": 1, "properties.title": "u", "new.x": 1}, "create_missing_paths": false}, `"title":"t"`, `"title":"u"`},
		{"removes", object{"removes": []any{"properties.title", "nothing.there", "properties.title.deep"}}, `,"title":"t"`, ``},
		{"removes by wildcard", object{"removes": []any{"assets.*.roles", "assets.*.*.x"}}, `,"roles":["a"]`, ``},
		{"removes come first", object{"removes": []any{"properties"}, "updates": object{"properties.k": 1}}, `{"n":1.50,"title":"t"}`, `{"k":1}`},
	} {
		got, err := modify(t, c.config, sample)
		if want := strings.Replace(sample, c.from, c.to, 1); err != nil || !same(t, got, want) {
			t.Errorf("%s:\n got %s, %v\nwant %s", c.name, got, err, want)
		}
		if again, err := modify(t, c.config, got); err != nil || again != got {
			t.Errorf("%s: a second run changed it to %s, %v", c.name, again, err)
		}
	}
}

// same compares texts, with the members of objects in any order.
func same(t *testing.T, a, b string) bool {
	t.Helper()
	return canonical(t, a) == canonical(t, b)
}

func canonical(t *testing.T, text string) string {
	t.Helper()
	v, err := streamtest.Item(t, text).Any()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(v) // maps print sorted
}

func TestRuleThatDoesNotFitFailsTheItem(t *testing.T) {
	for _, c := range []struct {
		config object
		want   string
	}{
		{object{"updates": object{"properties.title.x": 1}}, "properties.title is a text, not an object"},
		{object{"updates": object{"providers[1].x": 1}}, "providers[1] is not there"},
		{object{"updates": object{"properties.x": "{properties.none}"}}, "no value for {properties.none}"},
		{object{"migrate": "1.1.0"}, "no stac_version"},
	} {
		_, err := modify(t, c.config, sample)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.config, err, c.want)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	for _, c := range []struct {
		config object
		want   string
	}{
		{object{"updates": object{"a..b": 1}}, "a step is empty"},
		{object{"updates": object{"properties.x": "{asset_key}"}}, "stands for nothing"},
		{object{"updates": object{"properties.x": "{nope}"}}, "unknown name {nope}"},
		{object{"removes": []any{"a["}}, "[ without ]"},
		{object{"auto_update_timestamp": false}, "nothing to do"},
		{object{"patch_file": "none.json"}, "none.json"},
		{object{"mode": "overwrite"}, "must be one of merge, replace, update_only"},
		{object{"update": object{}}, "update is unknown (did you mean updates?)"},
		{object{"repair": []any{"geometry"}}, "must be one of datetime"},
		{object{"migrate": "1.2.0"}, "must be one of 1.1.0"},
	} {
		_, err := streamtest.New(t).Open(module(), c.config)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.config, err, c.want)
		}
	}
	if problems := module().Check(object{"removes": []any{"{{ params.what[0] }}", "a["}, "updates": object{"b..c": 1}}); len(problems) != 2 {
		t.Errorf("Check: %v", problems)
	}
	if problems := module().Try(t.Context(), streamtest.New(t).Env, object{"patch_file": "none.json", "max_patch_bytes": int64(1)}); len(problems) != 1 {
		t.Errorf("Try: %v", problems)
	}
}

// properties.updated of what the step changes is the time when the execution began; what it leaves as it is keeps its own.
func TestTimestamp(t *testing.T) {
	for _, c := range []struct{ config, from, to string }{
		{`{"updates":{"properties.k":2}}`, `{"id":"a","properties":{"updated":"2020-01-01T00:00:00Z","k":1}}`, `{"id":"a","properties":{"updated":"2026-02-03T03:05:06.007Z","k":2}}`},
		{`{"removes":["x"],"create_missing_paths":false}`, `{"id":"a","x":1}`, `{"id":"a","properties":{"updated":"2026-02-03T03:05:06.007Z"}}`},
		{`{"updates":{"properties.k":1}}`, `{"id":"a", "properties":{"updated":"2020-01-01T00:00:00Z","k":1}}`, `{"id":"a","properties":{"updated":"2020-01-01T00:00:00Z","k":1}}`},
		{`{"updates":{"properties.k":{"b":1,"a":[2]}}}`, `{"id":"a","properties":{"k":{"a":[2], "b":1}}}`, ""},
		{`{"removes":["x"]}`, `{"id":"a"}`, `{"id":"a"}`},
	} {
		decoded, err := expr.Decode([]byte(c.config))
		if err != nil {
			t.Fatal(err)
		}
		config := decoded.(object)
		config["auto_update_timestamp"] = true
		got, err := modify(t, config, c.from)
		if err != nil || c.to != "" && got != c.to || c.to == "" && strings.Contains(got, "updated") {
			t.Errorf("%s: %s, %v, want %s", c.config, got, err, c.to)
		}
	}
}

func patchFile(t *testing.T, rig *streamtest.Rig, text string) string {
	t.Helper()
	if err := os.WriteFile(filepath.Join(rig.Env.Dir, "patches.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "patches.json"
}

func TestPatches(t *testing.T) {
	const it = `{"type":"Feature","id":"a/b.\"c\"","collection":"c","properties":{"k":1,"deep":{"x":1,"y":2},"l":[1,2]},"with.dot":1}`
	for _, c := range []struct{ name, mode, patch, want string }{
		{"nested", "merge", `{"properties":{"deep":{"x":9,"z":7e-06},"l":[3],"k":null}}`,
			`{"type":"Feature","id":"a/b.\"c\"","collection":"c","properties":{"k":null,"deep":{"x":9,"y":2,"z":7e-06},"l":[3]},"with.dot":1}`},
		{"by path", "merge", `{"properties.deep.x":9,"properties.new.n":1,"with.dot":2,"properties.l[0]":5}`,
			`{"type":"Feature","id":"a/b.\"c\"","collection":"c","properties":{"k":1,"deep":{"x":9,"y":2},"l":[5,2],"new":{"n":1}},"with.dot":2}`},
		{"only what is there", "update_only", `{"properties":{"deep":{"x":9,"z":7},"other":1},"properties.new.n":1,"extra":1}`,
			`{"type":"Feature","id":"a/b.\"c\"","collection":"c","properties":{"k":1,"deep":{"x":9,"y":2},"l":[1,2]},"with.dot":1}`},
		{"in its place", "replace", `{"id":"other","type":"x","properties":{"only":1},"properties.more":2}`,
			`{"type":"Feature","id":"a/b.\"c\"","collection":"c","properties":{"only":1,"more":2}}`},
	} {
		rig := streamtest.New(t)
		config := object{"mode": c.mode, "patch_file": patchFile(t, rig, `{"a/b.\"c\"":`+c.patch+`,"never":{"x":1}}`)}
		got, err := modifyIn(t, rig, config, it)
		if err != nil || got != c.want {
			t.Errorf("%s:\n got %s, %v\nwant %s", c.name, got, err, c.want)
		}
		if again, err := modifyIn(t, rig, config, got); err != nil || again != got {
			t.Errorf("%s: a second run gives %s, %v", c.name, again, err)
		}
		if other, err := modifyIn(t, rig, config, `{"id":"none", "k" : 1.0}`); err != nil || other != `{"id":"none", "k" : 1.0}` {
			t.Errorf("%s: an item without a patch became %s, %v", c.name, other, err)
		}
	}
}

// A patch is for the item that came, whatever its id becomes.
func TestPatchBeforeRenaming(t *testing.T) {
	rig := streamtest.New(t)
	got, err := modifyIn(t, rig, object{"updates": object{"id": "new-{item_id}"}, "patch_file": patchFile(t, rig, `{"a":{"x":1}}`)}, `{"id":"a"}`)
	if want := `{"id":"new-a","x":1}`; err != nil || got != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

func TestPatchFileErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`[{"id":"a"}]`, "no item id"},
		{`{"a":{"b..c":1},"d":{}}`, "a step is empty"},
		{`{"a":{"x":1},"b":{"y":"` + strings.Repeat("long ", 100) + `"}}`, "max_patch_bytes"},
	} {
		rig := streamtest.New(t)
		_, err := rig.Open(module(), object{"patch_file": patchFile(t, rig, c.text), "max_patch_bytes": 500})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "patch_file") {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}

func TestOutputs(t *testing.T) {
	rig := streamtest.New(t)
	c, err := rig.Open(module(), object{"patch_file": patchFile(t, rig, `{"a":{"x":1},"b":{"x":1},"c":{"x":1}}`), "repair": []any{"datetime"}, "migrate": "1.1.0"})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`{"id":"a","stac_version":"1.0.0"}`, `{"id":"a","stac_version":"1.1.0","properties":{"datetime":"2020-01-01 00:00:00"}}`, `{"id":"x","stac_version":"1.0.0-rc.1"}`} {
		if _, err := c.(stream.Modifier).Modify(t.Context(), streamtest.Item(t, text)); err != nil {
			t.Fatal(err)
		}
	}
	outputs, err := c.(stream.Finisher).Finish(nil)
	if got, want := fmt.Sprint(outputs), "map[migrated:2 patched:2 patches_unused:2 repaired:1]"; err != nil || got != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

func TestFailureTellsTheField(t *testing.T) {
	c, err := streamtest.New(t).Open(module(), object{"updates": object{"id.x": 1}})
	if err != nil {
		t.Fatal(err)
	}
	it := streamtest.Item(t, `{"id":"a"}`)
	_, err = c.(stream.Modifier).Modify(t.Context(), it)
	failed, ok := errors.AsType[*stream.Error](err)
	if want := (stream.Context{Field: "id.x"}); !ok || failed.Context != want || stepwell.CodeOf(err) != stepwell.CodeInvalid {
		t.Errorf("%#v, want %v", err, want)
	}
}

// parseItem is the text of an object, or an error.
func parseItem(text string) ([]byte, error) {
	it := stream.Lazy([]byte(text), stream.Place{})
	if err := it.Parse(); err != nil {
		return nil, err
	}
	return it.Bytes(), nil
}
