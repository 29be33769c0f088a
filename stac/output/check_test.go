package output

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/spec"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		config map[string]any
		want   string // in one of the problems; "" for none
	}{
		{map[string]any{"format": "json", "base_dir": "out"}, ""},
		{map[string]any{"format": "json", "base_dir": "{{ params.dir }}", "buffer_size": "{{ params.n }}"}, ""},
		{map[string]any{"format": "{{ params.format }}"}, ""},
		{map[string]any{"format": "catalog", "base_dir": "out", "split": "{properties.datetime:year}/{properties.eo:cloud_cover}"}, ""},
		{map[string]any{"format": "ndjson", "output_path": "a.ndjson.gz", "compression": "gzip"}, ""},
		{map[string]any{"format": "parquet", "output_path": "x", "schema": "fixed", "columns": map[string]any{"eo:cloud_cover": "double"}}, ""},
		{map[string]any{"format": "api", "url": "https://h.example/stac"}, ""},
		{map[string]any{"format": "json"}, "needs base_dir"},
		{map[string]any{"format": "api"}, "needs url"},
		{map[string]any{"format": "json", "base_dir": "a", "output_path": "b"}, "same thing"},
		{map[string]any{"format": "api", "url": "https://h/", "catalog_url": "https://h/"}, "same thing"},
		{map[string]any{"format": "api", "url": "https://h/", "base_dir": "x"}, "no meaning for format api"},
		{map[string]any{"format": "json", "base_dir": "a", "layout": "absolute", "base_url": "https://h/"}, "no meaning for format json"},
		{map[string]any{"format": "json", "base_dir": "a", "url": "https://h"}, "no meaning for format json"},
		{map[string]any{"format": "json", "base_dir": "a", "base_url": "not a url"}, "base_url is not a URL"},
		{map[string]any{"format": "catalog", "base_dir": "a", "layout": "absolute"}, "needs base_url"},
		{map[string]any{"format": "catalog", "base_dir": "a", "layout": "self-contained", "base_url": "https://h/"}, "no meaning"},
		{map[string]any{"format": "catalog", "base_dir": "a", "split": "{properties.x"}, "a { without"},
		{map[string]any{"format": "catalog", "base_dir": "a", "split": "{asset_key}"}, "does not tell items apart"},
		{map[string]any{"format": "ndjson", "output_path": "a.ndjson.gz", "compression": "zstd"}, "is not what the name"},
		{map[string]any{"format": "ndjson", "output_path": "a.ndjson", "organize_by": "collection"}, "is a file"},
		{map[string]any{"format": "ndjson", "base_dir": "a", "organize_by": "item_id"}, "is for format json"},
		{map[string]any{"format": "parquet", "base_dir": "a", "schema": "fixed"}, "belong together"},
		{map[string]any{"format": "parquet", "base_dir": "a", "schema": "fixed", "columns": map[string]any{"x": "varchar"}}, "unknown type"},
	} {
		problems := Modules(Options{})[0].Check(c.config)
		found := c.want == "" && len(problems) == 0
		for _, p := range problems {
			found = found || c.want != "" && strings.Contains(p.Error(), c.want)
		}
		if !found {
			t.Errorf("%v: %v, want %q", c.config, problems, c.want)
		}
	}
}

// TestSpec holds the description to the config: every field is known, documented, and one key at least is
// suggested for one that is misspelt.
func TestSpec(t *testing.T) {
	m := Modules(Options{})[0]
	checker, err := spec.Compile(m.Spec.Params, m.Spec.OpenParams)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range m.Spec.Params {
		if f.Doc == "" || !strings.HasSuffix(f.Doc, ".") {
			t.Errorf("%s: doc %q", f.Name, f.Doc)
		}
	}
	for key := range only {
		if _, ok := spec.FieldNamed(m.Spec.Params, key); !ok {
			t.Errorf("%s is checked, but no field", key)
		}
	}
	if problems := checker.Check(map[string]any{"format": "json", "base_dri": "x"}); len(problems) != 1 || !strings.Contains(problems[0].String(), "base_dir") {
		t.Errorf("%v", problems)
	}
}

func TestTry(t *testing.T) {
	b := newBench(t, nil)
	try := func(config map[string]any) []error {
		return b.module.Try(context.Background(), b.rig.Env, config)
	}
	if problems := try(map[string]any{"format": "json", "base_dir": "a/b/c"}); len(problems) > 0 {
		t.Error(problems)
	}
	if entries, err := os.ReadDir(b.rig.Env.Dir); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v %v", entries, err)
	}
	if err := os.WriteFile(filepath.Join(b.rig.Env.Dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if problems := try(map[string]any{"format": "json", "base_dir": "file"}); len(problems) != 1 || !strings.Contains(problems[0].Error(), "is a file") {
		t.Error(problems)
	}
	if problems := try(map[string]any{"format": "json"}); len(problems) != 1 {
		t.Error(problems)
	}
	if problems := try(map[string]any{"format": "api", "url": "https://h.example"}); len(problems) != 1 {
		t.Error(problems)
	}
}
