package update

import (
	"strings"
	"testing"

	"github.com/stepwell/stepwell/stream/streamtest"
)

func TestMigrate(t *testing.T) {
	const from = `{"type":"Feature","stac_version":"1.0.0","id":"a","stac_extensions":["https://stac-extensions.github.io/eo/v1.0.0/schema.json","https://stac-extensions.github.io/raster/v1.1.0/schema.json","https://stac-extensions.github.io/projection/v1.1.0/schema.json","https://stac-extensions.github.io/view/v1.0.0/schema.json","https://example.org/eo/v1.0.0/schema.json"],
"properties":{"proj:epsg":32632,"license":"proprietary","k":1.50},
"assets":{"B4":{"href":"x","proj:epsg":null,"eo:bands":[{"name":"B4","common_name":"red","center_wavelength":0.65,"gsd":30}],"raster:bands":[{"data_type":"uint16","scale":2.0,"nodata":0,"name":"other","classification:classes":[]},{"unit":"m"}]},
"plain":{"href":"y","eo:bands":[]}, "both":{"href":"z","proj:code":"IAU:1","proj:epsg":4326,"bands":[{"name":"mine"}],"eo:bands":[{"name":"theirs","common_name":"nir"}]}}}`
	const want = `{"type":"Feature","stac_version":"1.1.0","id":"a","stac_extensions":["https://stac-extensions.github.io/eo/v2.0.0/schema.json","https://stac-extensions.github.io/raster/v2.0.0/schema.json","https://stac-extensions.github.io/projection/v2.0.0/schema.json","https://stac-extensions.github.io/view/v1.0.0/schema.json","https://example.org/eo/v1.0.0/schema.json"],
"properties":{"proj:code":"EPSG:32632","license":"other","k":1.50},
"assets":{"B4":{"href":"x","proj:code":null,"bands":[{"name":"B4","eo:common_name":"red","eo:center_wavelength":0.65,"gsd":30,"data_type":"uint16","raster:scale":2.0,"nodata":0,"classification:classes":[]},{"unit":"m"}]},
"plain":{"href":"y"}, "both":{"href":"z","proj:code":"IAU:1","bands":[{"name":"mine","eo:common_name":"nir"}]}}}`
	got, err := modify(t, object{"migrate": "1.1.0"}, from)
	if err != nil || !same(t, got, want) {
		t.Fatalf("got %s, %v", got, err)
	}
	if !strings.Contains(got, `"k":1.50`) {
		t.Errorf("a number was written anew: %s", got)
	}
	if again, err := modify(t, object{"migrate": "1.1.0"}, got); err != nil || again != got {
		t.Errorf("a second run gives %s, %v", again, err)
	}
	for _, version := range []string{"1.0.0-beta.2", "0.9.0", "2.0.0"} {
		if _, err := modify(t, object{"migrate": "1.1.0"}, `{"id":"a","stac_version":"`+version+`"}`); err == nil || !strings.Contains(err.Error(), version) {
			t.Errorf("%s: %v", version, err)
		}
	}
}

func TestRepairDatetime(t *testing.T) {
	const from = `{"id":"2020-01-01 00:00:00","properties":{"datetime":"2022-03-24 10:27:05.5Z","start_datetime":"2022-03-24 10:27:05","s1:processing_datetime":"2022-03-24 10:27:05+0100","updated":"2022-03-24 10:27:05 +01:00","end_datetime":"2022-03-24T10:27:05Z","title":"2022-03-24 10:27:05","date_note":"2022-03-24 10:27:05 or so","created":null},"assets":{"a":{"created":"2022-03-24 10:27:05 UTC"}}}`
	const want = `{"id":"2020-01-01 00:00:00","properties":{"datetime":"2022-03-24T10:27:05.5Z","start_datetime":"2022-03-24T10:27:05Z","s1:processing_datetime":"2022-03-24T10:27:05+01:00","updated":"2022-03-24T10:27:05+01:00","end_datetime":"2022-03-24T10:27:05Z","title":"2022-03-24 10:27:05","date_note":"2022-03-24 10:27:05 or so","created":null},"assets":{"a":{"created":"2022-03-24T10:27:05Z"}}}`
	if got, err := modify(t, object{"repair": []any{"datetime"}}, from); err != nil || got != want {
		t.Errorf("got %s, %v", got, err)
	}
	if got, err := modify(t, object{"repair": []any{"datetime"}}, want); err != nil || got != want {
		t.Errorf("a second run gives %s, %v", got, err)
	}
}

func FuzzModify(f *testing.F) {
	f.Add(`{"stac_version":"1.0.0","properties":{"datetime":"2022-03-24 10:27:05"},"assets":{"a":{"eo:bands":[{}],"raster:bands":{}}},"stac_extensions":"x"}`)
	f.Add(`{"stac_version":"1.0.0","properties":[],"assets":[{"eo:bands":1}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		if !strings.HasPrefix(text, "{") {
			return
		}
		v, err := parseItem(text)
		if err != nil {
			return
		}
		rig := streamtest.New(t)
		config := object{"repair": []any{"datetime"}, "migrate": "1.1.0", "removes": []any{"assets.*.roles"}, "updates": object{"assets.*.title": "{asset_key}"}}
		out, err := modifyIn(t, rig, config, string(v))
		if err != nil {
			return
		}
		if again, err := modifyIn(t, rig, config, out); err != nil || again != out {
			t.Errorf("%s became %s, then %s, %v", text, out, again, err)
		}
	})
}
