package update

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dlclark/regexp2"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/streamtest"
)

// shared is a path in the folder of recorded data; the test is skipped when it is not there.
func shared(t *testing.T, path ...string) string {
	t.Helper()
	dir := os.Getenv("STEPWELL_SHARED_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	dir, err := filepath.Abs(filepath.Join(append([]string{dir}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skip("left out: recorded data, which is not here: " + strings.Join(path, "/"))
	}
	return dir
}

func sampleItems(t *testing.T, dir string) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "sample-data", "items.json"))
	if err != nil {
		t.Fatal(err)
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		t.Fatal(err)
	}
	out := make([]string, len(items))
	for i := range items {
		out[i] = string(items[i])
	}
	return out
}

// The config of tutorial 02 of stac-manager, word for word, and its file of patches.
func TestSampleUpdate(t *testing.T) {
	dir := shared(t, "stac-manager-samples", "sentinel-2-l2a-api")
	config := object{"mode": "merge", "updates": object{"properties.processed": true, "properties.processing_date": "2024-01-26T00:00:00Z",
		"properties.processing_note": "Processed via tutorial 02 workflow"}, "create_missing_paths": true, "auto_update_timestamp": true}
	patched := object{"patch_file": filepath.Join(dir, "input-data", "updates.json"), "auto_update_timestamp": false}
	rig := streamtest.New(t)
	rig.Env.Started = now
	c, err := rig.Open(module(), patched)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range sampleItems(t, dir) {
		got, err := modify(t, config, text)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{`"processed":true`, `"processing_note":"Processed via tutorial 02 workflow"`, `"updated":"2026-02-03T03:05:06.007Z"`} {
			if strings.Count(got, part) != 1 {
				t.Errorf("%s is not there once: %s", part, got)
			}
		}
		out, err := c.(stream.Modifier).Modify(t.Context(), streamtest.Item(t, text))
		if err != nil {
			t.Fatal(err)
		}
		if by, _ := out.Get("properties").Get("processed_by").Str(); by != "stac-manager" || out.Get("properties").Get("datetime") == nil {
			t.Errorf("not patched: %s", out.Bytes())
		}
		before := string(out.Bytes())
		if _, err := c.(stream.Modifier).Modify(t.Context(), out); err != nil || string(out.Bytes()) != before {
			t.Errorf("a second run changed %s, %v", out.ID(), err)
		}
	}
	outputs, err := c.(stream.Finisher).Finish(nil)
	if got := outputs.(map[string]any); err != nil || got["patched"] != int64(40) || got["patches_unused"] != 0 {
		t.Errorf("%v, %v", got, err)
	}
}

// Of the recorded items of 1.0.0, all that are valid are valid after their migration, by the schemas of 1.1.0
// and of the new versions of their extensions.
func TestMigratedItemsAreValid(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(shared(t, "items"), "*.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.UseRegexpEngine(ecmaRegexp)
	c.AssertFormat()
	c.UseLoader(mirror(shared(t, "schemas")))
	valid, bands := 0, 0
	for _, file := range files {
		for i, text := range lines(t, file) {
			if i%10 != 0 && i > 20 { // a tenth of the many alike
				continue
			}
			v, err := item.Parse([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if version, _ := v.Get("stac_version").Str(); version != "1.0.0" || fault(t, c, v) != "" {
				continue
			}
			got, err := modify(t, object{"migrate": "1.1.0"}, text)
			if err != nil {
				t.Fatal(err)
			}
			after, err := item.Parse([]byte(got))
			if err != nil {
				t.Fatal(err)
			}
			if what := fault(t, c, after); what != "" {
				t.Fatalf("%s: %s", filepath.Base(file), what)
			}
			if strings.Contains(got, `"proj:epsg"`) || strings.Contains(got, `"eo:bands"`) || strings.Contains(got, `"raster:bands"`) {
				t.Errorf("%s: not all is migrated: %s", filepath.Base(file), got)
			}
			valid++
			bands += strings.Count(got, `"bands":[`)
		}
	}
	if valid < 100 || bands < 500 {
		t.Errorf("only %d items with %d lists of bands were looked at", valid, bands)
	}
}

func lines(t *testing.T, path string) []string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var out []string
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		out = append(out, scanner.Text())
	}
	return out
}

// fault is what the schemas that an item names have against it; those that are not here have nothing.
func fault(t *testing.T, c *jsonschema.Compiler, v *item.Value) string {
	t.Helper()
	version, _ := v.Get("stac_version").Str()
	uris := []string{"https://schemas.stacspec.org/v" + version + "/item-spec/json-schema/item.json"}
	for _, uri := range v.Get("stac_extensions").Elements() {
		if text, _ := uri.Str(); strings.HasPrefix(text, "https://stac-extensions.github.io/") && !strings.Contains(text, "/landsat/") {
			uris = append(uris, text)
		}
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(v.Bytes())))
	if err != nil {
		t.Fatal(err)
	}
	for _, uri := range uris {
		schema, err := c.Compile(uri)
		if err != nil {
			return err.Error()
		}
		if err := schema.Validate(doc); err != nil {
			return err.Error()
		}
	}
	return ""
}

// mirror loads schemas from a folder instead of the web.
type mirror string

func (m mirror) Load(url string) (any, error) {
	_, rest, _ := strings.Cut(strings.TrimSuffix(url, "#"), "://")
	path := filepath.Join(string(m), filepath.FromSlash(rest))
	if filepath.Ext(path) == "" {
		path += ".json"
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return jsonschema.UnmarshalJSON(file)
}

type ecma struct{ *regexp2.Regexp }

func (e ecma) MatchString(s string) bool {
	ok, err := e.Regexp.MatchString(s)
	return ok && err == nil
}

func ecmaRegexp(text string) (jsonschema.Regexp, error) {
	re, err := regexp2.Compile(text, regexp2.ECMAScript)
	if err != nil {
		return nil, err
	}
	re.MatchTimeout = time.Second
	return ecma{re}, nil
}
