package transform

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/files"
	"github.com/stepwell/stepwell/stream/streamtest"
)

type object = map[string]any

func module() stream.Module { return Modules(files.New(files.Options{}))[0] }

// write puts a file into the rig's directory and gives its name.
func put(t testing.TB, rig *streamtest.Rig, name, text string) string {
	t.Helper()
	if err := os.WriteFile(filepath.Join(rig.Env.Dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// join opens the module as a modifier.
func join(t testing.TB, rig *streamtest.Rig, config object) stream.Modifier {
	t.Helper()
	c, err := rig.Open(module(), config)
	if err != nil {
		t.Fatal(err, stepwell.HintOf(err))
	}
	return c.(stream.Modifier)
}

func modify(t testing.TB, m stream.Modifier, text string) (string, error) {
	t.Helper()
	out, err := m.Modify(t.Context(), streamtest.Item(t, text))
	if err != nil {
		return "", err
	}
	return string(out.Bytes()), nil
}

func outputs(t testing.TB, c any) string {
	t.Helper()
	out, err := c.(stream.Finisher).Finish(nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const scenes = `scene,taken,"Cloud Cover %",epsg,lon,lat,wkt,zip
A.1,24.03.2022 10:27,7e-06,32632,7.50,46.25,"POLYGON ((7 46, 8 46, 8 47, 7 47, 7 46))",007
,24.03.2022 10:27,1,32632,7.5,46.25,,1
"B/""2""",31.02.2022 10:27,1,32632,7.5,46.25,,1
C,24.12.2022 10:27,,none,7.5,46.25,POINT (1 2),
D,24.12.2022 00:30,100.0,4326,7.5,46.25,,012
`

var sceneMappings = []any{
	object{"source_field": "scene", "target_field": "id", "type": "string", "required": true},
	object{"source_field": "taken", "target_field": "datetime", "type": "datetime", "format": "%d.%m.%Y %H:%M"},
	object{"source_field": "Cloud Cover %", "target_field": "properties.eo:cloud_cover", "default": -1},
	object{"source_field": "null_if(epsg, 'none')", "target_field": "properties.proj:epsg", "type": "int"},
	object{"source_field": "[lon, lat]", "target_field": "geometry"},
	object{"source_field": "wkt", "target_field": "properties.proj:geometry", "type": "geometry"},
	object{"source_field": "zip", "target_field": "properties.zip", "type": "string"},
}

func TestRowsBecomeItems(t *testing.T) {
	rig := streamtest.New(t)
	items, _, err := rig.Read(module(), object{"source_file": put(t, rig, "scenes.csv", scenes), "mappings": sceneMappings, "timezone": "Europe/Berlin"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"id":"A.1","geometry":{"type":"Point","coordinates":[7.5,46.25]},"bbox":null,"datetime":"2022-03-24T09:27:00Z","properties":{"eo:cloud_cover":7e-06,"proj:epsg":32632,"proj:geometry":{"type":"Polygon","coordinates":[[[7,46],[8,46],[8,47],[7,47],[7,46]]]},"zip":"007"},"assets":{},"links":null}`,
		`{"id":"C","geometry":{"type":"Point","coordinates":[7.5,46.25]},"bbox":null,"datetime":"2022-12-24T09:27:00Z","properties":{"eo:cloud_cover":-1,"proj:geometry":{"type":"Point","coordinates":[1,2]}},"assets":{},"links":null}`,
		`{"id":"D","geometry":{"type":"Point","coordinates":[7.5,46.25]},"bbox":null,"datetime":"2022-12-23T23:30:00Z","properties":{"eo:cloud_cover":100.0,"proj:epsg":4326,"zip":"012"},"assets":{},"links":null}`,
	}
	if got := strings.Join(items, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	wantFailures(t, rig, `scenes.csv:3 unknown: id (from scene): there is no value`,
		`scenes.csv:4 B/"2": datetime (from taken): "31.02.2022 10:27" is not a time of the form %d.%m.%Y %H:%M`)
}

func wantFailures(t *testing.T, rig *streamtest.Rig, want ...string) {
	t.Helper()
	var got []string
	for _, f := range rig.Failures() {
		if f.Item == "" {
			f.Item = "unknown"
		}
		got = append(got, fmt.Sprintf("%s:%d %s: %v", f.Context.File, f.Context.Line, f.Item, f.Err))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("failures\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The same mapping, from the four places where it may stand.
func TestMappingsFromEverywhere(t *testing.T) {
	rig := streamtest.New(t)
	table := put(t, rig, "t.json", `{"list":{"rows":[{"a":{"id":7},"n":"1,5"}]}}`)
	mappings := []any{object{"source_field": "a.id", "target_field": "id"}, object{"source_field": "number(n, ',')", "target_field": "properties.n"}}
	for name, config := range map[string]object{
		"mappings":         {"mappings": mappings},
		"schema":           {"schema": object{"mappings": mappings}},
		"field_mapping":    {"field_mapping": object{"id": "a.id", "properties.n": "number(n, ',')"}},
		"schema_file.yaml": {"schema_file": put(t, rig, "s.yaml", "mappings:\n- source_field: a.id\n  target_field: id\n- {source_field: \"number(n, ',')\", target_field: properties.n, required: yes}\n")},
		"schema_file.json": {"schema_file": put(t, rig, "s.json", `{"mappings":[{"source_field":"a.id","target_field":"id"},{"source_field":"n","target_field":"properties.n","type":"float"}]}`), "decimal": ","},
		"schema_file list": {"schema_file": put(t, rig, "l.yaml", "- {source_field: a.id, target_field: id}\n- {source_field: \"number(n, ',')\", target_field: properties.n}\n")},
		"a JMESPath path":  {"mappings": mappings, "data_path": "list.rows[?n != 'x']"},
	} {
		config["source_files"] = []any{table}
		if config["data_path"] == nil {
			config["data_path"] = "list.rows"
		}
		items, _, err := rig.Read(module(), config)
		if name == "schema_file.yaml" { // yes is a text in YAML 1.2
			if err == nil || !strings.Contains(err.Error(), "required must be true or false") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if want := `{"id":"7","geometry":null,"bbox":null,"datetime":null,"properties":{"n":1.5},"assets":{},"links":null}`; err != nil || len(items) != 1 || items[0] != want {
			t.Errorf("%s: %s, %v", name, items, err)
		}
	}
}

func TestReadGoesOnWhereItWas(t *testing.T) {
	rig := streamtest.New(t)
	var b strings.Builder
	for i := range 1200 {
		fmt.Fprintf(&b, "{\"n\":%d}\n", i)
	}
	put(t, rig, "a.ndjson", b.String())
	put(t, rig, "b.ndjson", b.String())
	config := object{"source_file": "*.ndjson", "field_mapping": object{"id": "n"}}
	all, cursors, err := rig.Read(module(), config)
	if err != nil || len(all) != 2400 || len(cursors) != 6 {
		t.Fatal(len(all), len(cursors), err)
	}
	for i, behind := range []int{500, 1000, 1200, 1500, 2000, 2400} {
		rig.Env.Cursor = cursors[i]
		rest, _, err := rig.Read(module(), config)
		if err != nil || strings.Join(rest, "\n") != strings.Join(all[behind:], "\n") {
			t.Errorf("from %s: %d items, %v, want %d", cursors[i], len(rest), err, 2400-behind)
		}
	}
	if err := os.Remove(filepath.Join(rig.Env.Dir, "a.ndjson")); err != nil {
		t.Fatal(err)
	}
	rig.Env.Cursor = cursors[0]
	if _, _, err := rig.Read(module(), config); stepwell.CodeOf(err) != stepwell.CodeConflict {
		t.Errorf("a file that is gone: %v", err)
	}
}

func TestJoinOnlyIsNoSource(t *testing.T) {
	rig := streamtest.New(t)
	put(t, rig, "t.csv", "id,x\na,1\n")
	for _, c := range []struct {
		config object
		want   string
	}{
		{object{"input_file": "t.csv", "field_mapping": object{"properties.x": "x"}}, "no items come"},
		{object{"source_file": "t.csv", "field_mapping": object{"assets.*.x": "x"}}, "no items come"},
		{object{"source_file": "t.csv", "field_mapping": object{"properties.x": "{item_id}_x"}}, "no items come"},
	} {
		if _, _, err := rig.Read(module(), c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v", c.config, err)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	fields := object{"properties.x": "x"}
	for _, c := range []struct {
		config object
		want   string
	}{
		{object{"field_mapping": fields}, "one of source_file, source_files, input_file is missing"},
		{object{"source_file": "t.csv", "input_file": "t.csv", "field_mapping": fields}, "source_file and input_file say the same"},
		{object{"source_file": "t.csv", "field_mapping": fields, "at": "a", "data_path": "b"}, "at and data_path say the same"},
		{object{"source_file": "t.csv"}, "one of field_mapping, mappings, schema, schema_file is missing"},
		{object{"source_file": "t.csv", "field_mapping": fields, "schema_file": "x"}, "field_mapping and schema_file say the same"},
		{object{"source_file": "t.csv", "field_mapping": fields, "input_key": "a", "input_join_key": "b"}, "input_join_key and input_key say the same"},
		{object{"source_file": "t.csv", "field_mapping": object{}}, "field_mapping: is empty"},
		{object{"source_file": "t.csv", "field_mapping": object{"a": 1}}, "must be the name of a column"},
		{object{"source_file": "t.csv", "field_mapping": object{"a..b": "x"}}, "a step is empty"},
		{object{"source_file": "t.csv", "field_mapping": object{"properties.x": "{asset_key}"}}, "stands for nothing"},
		{object{"source_file": "t.csv", "field_mapping": fields, "timezone": "Europe/Bern"}, "Europe/Bern"},
		{object{"source_file": "t.csv", "field_mapping": fields, "data_path": "a[?"}, "not a JMESPath expression"},
		{object{"source_file": "t.csv", "field_mapping": fields, "delimiter": "ab"}, "delimiter"},
		{object{"source_file": "t.csv", "field_mapping": fields, "fieldmapping": 1}, "did you mean field_mapping?"},
		{object{"source_file": "t.csv", "field_mapping": fields, "strategy": "overwrite"}, "must be one of merge"},
		{object{"source_file": "none.csv", "field_mapping": fields}, "none.csv"},
		{object{"source_file": "t.csv", "mappings": []any{object{"source_field": "x"}}}, "mappings[0].target_field is missing"},
		{object{"source_file": "t.csv", "mappings": []any{object{"source_field": "x", "target_field": "y", "format": "%Y"}}}, "format has no meaning"},
		{object{"source_file": "t.csv", "mappings": []any{object{"source_field": "x", "target_field": "y", "type": "datetime", "format": "%Q"}}}, "is not known"},
		{object{"source_file": "t.csv", "schema": object{}}, "mappings is missing"},
		{object{"source_file": "t.csv", "schema_file": "bad.yaml"}, "schema_file bad.yaml"},
		{object{"source_file": "t.csv", "schema_file": "none.yaml"}, "schema_file none.yaml"},
	} {
		rig := streamtest.New(t)
		put(t, rig, "t.csv", "id,x\na,1\n")
		put(t, rig, "bad.yaml", "mappings:\n- {source: x, target_field: y}\n")
		_, err := rig.Open(module(), c.config)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.config, err, c.want)
		}
	}
	if problems := module().Check(object{"source_file": "{{ params.f }}", "data_path": "{{ params.p }}", "field_mapping": fields, "timezone": "{{ params.zone }}"}); len(problems) != 0 {
		t.Errorf("templates: %v", problems)
	}
	if problems := module().Try(t.Context(), streamtest.New(t).Env, object{"source_file": "none.csv", "field_mapping": fields}); len(problems) != 1 {
		t.Errorf("Try: %v", problems)
	}
}
