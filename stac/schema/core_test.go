package schema_test

import (
	"strings"
	"testing"

	"github.com/stepwell/stepwell/stac/schema"
)

const (
	plainItem = `{"type":"Feature","stac_version":"1.1.0","id":"a","collection":"c","geometry":{"type":"Point","coordinates":[1,2]},"bbox":[1,2,1,2],
"properties":{"datetime":"2020-01-01T00:00:00Z","gsd":10},"links":[{"rel":"collection","href":"../c.json"}],"assets":{"B1":{"href":"b.tif","roles":["data"]}}}`
	plainCollection = `{"type":"Collection","stac_version":"1.0.0","id":"c","description":"d","license":"CC-BY-4.0","extent":{"spatial":{"bbox":[[0,0,1,1]]},"temporal":{"interval":[["2020-01-01T00:00:00Z",null]]}},"links":[]}`
	plainCatalog    = `{"type":"Catalog","stac_version":"1.1.0","id":"c","description":"d","links":[]}`
)

// What the built-in rules say, one change at a time.
func TestCore(t *testing.T) {
	for _, c := range []struct{ text, from, to, want string }{
		{plainItem, "", "", ""},
		{plainCollection, "", "", ""},
		{plainCatalog, "", "", ""},
		{plainItem, `,"bbox":[1,2,1,2]`, ``, ": missing 'bbox'"},
		{plainItem, `[1,2,1,2]`, `[1,2,1]`, "/bbox: is not a list of 4 or 6"},
		{plainItem, `{"type":"Point","coordinates":[1,2]}`, `null`, "/bbox: is not allowed without"},
		{plainItem, `"Point"`, `"GeometryCollection"`, "/geometry/type: is a GeometryCollection"},
		{plainItem, `[1,2]}`, `[1,"2"]}`, "/geometry/coordinates/1: is not a number"},
		{plainItem, `"2020-01-01T00:00:00Z"`, `null`, "/properties: missing 'start_datetime', 'end_datetime'"},
		{plainItem, `T00:00:00Z`, ` 00:00:00Z`, "/properties/datetime: is not a time"},
		{plainItem, `00:00Z`, `00:00+01:00`, "/properties/datetime: is not in UTC"},
		{plainItem, `"rel":"collection"`, `"rel":"root"`, "/collection: is not allowed without a link"},
		{plainItem, `"collection":"c",`, ``, ": missing 'collection'"},
		{plainItem, `"href":"b.tif",`, ``, "/assets/B1: missing 'href'"},
		{plainItem, `["data"]`, `"data"`, "/assets/B1/roles: is not a list"},
		{plainItem, `"gsd":10`, `"gsd":0`, "/properties/gsd: is not above 0"},
		{plainItem, `"gsd":10`, `"bands":[]`, "/properties/bands: is not allowed where no asset"},
		{plainItem, `"gsd":10`, `"nodata":"none"`, "/properties/nodata: is neither a number"},
		{plainItem, `"rel":"collection",`, `"rel":"self"},{"rel":"collection",`, "/links/0: missing 'href'"},
		{plainItem, `"id"`, `"stac_extensions":["https://x.y","https://x.y","eo"],"id"`, "/stac_extensions: names a schema twice|/stac_extensions/2: is not an absolute URL"},
		{plainCollection, `"CC-BY-4.0"`, `"CC BY"`, "/license: is not an SPDX"},
		{plainCollection, `[0,0,1,1]`, ``, "/extent/spatial/bbox: is not one box"},
		{plainCollection, `,null]`, `]`, "/extent/temporal/interval/0: is not a list of begin and end"},
		{plainCatalog, `"d"`, `""`, "/description: is empty"},
		{plainCatalog, `"Catalog"`, `"Katalog"`, "/type: is neither"},
		{`[]`, "", "", "is not an object"},
	} {
		if !strings.Contains(c.text, c.from) {
			t.Fatal("nothing to change: ", c.from)
		}
		var got []string
		doc, err := schema.Parse([]byte(strings.Replace(c.text, c.from, c.to, 1)))
		if err != nil {
			t.Fatal(err)
		}
		rules := schema.Core("1.1.0")
		if c.text == plainCollection {
			rules = schema.Core("1.0.0")
		}
		for _, p := range rules.Check(doc) {
			if p.Schema != schema.BuiltIn || p.Keyword == "" {
				t.Errorf("%+v", p)
			}
			got = append(got, p.Pointer+": "+p.Message)
		}
		want := strings.Split(c.want, "|")
		if c.want == "" {
			want = nil
		}
		same := len(got) == len(want)
		for i := range min(len(got), len(want)) {
			same = same && strings.Contains(got[i], want[i])
		}
		if !same {
			t.Errorf("%s for %s:\n got  %q\n want %q", c.to, c.from, got, want)
		}
	}
}
