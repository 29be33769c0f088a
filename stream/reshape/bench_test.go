package reshape_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream"
)

const benchItem = `{"type":"Feature","stac_version":"1.0.0","id":"S2B_31UFT_20240817_0_L2A","collection":"sentinel-2-l2a",` +
	`"bbox":[4.464995307918359,52.34135509680213,6.123456789012345,53.33333333333333],` +
	`"geometry":{"type":"Polygon","coordinates":[[[4.464995307918359,53.23995],[6.11,53.2],[6.07,52.213],[4.4982,52.2535],[4.464995307918359,53.23995]]]},` +
	`"properties":{"datetime":"2024-08-17T10:46:33.456000Z","platform":"sentinel-2b","constellation":"sentinel-2","eo:cloud_cover":12.345678,` +
	`"view:sun_azimuth":157.31512345,"proj:epsg":32631,"mgrs:utm_zone":31,"grid:code":"MGRS-31UFT","s2:sequence":"0","created":"2024-08-17T16:44:01.123Z","updated":null},` +
	`"assets":{"visual":{"href":"https://example.org/S2B_31UFT_20240817_0_L2A/TCI.tif","type":"image/tiff; application=geotiff; profile=cloud-optimized","roles":["visual"]}},` +
	`"links":[{"rel":"self","type":"application/geo+json","href":"https://example.org/items/S2B_31UFT_20240817_0_L2A"}],"stac_extensions":["https://stac-extensions.github.io/eo/v1.1.0/schema.json"]}`

// BenchmarkFilterMap has the cost of both for one item; that of parsing and writing is BenchmarkParseWrite's.
func BenchmarkFilterMap(b *testing.B) {
	f := open(b, "stream.filter", `{when: 'item.properties["eo:cloud_cover"] < 20'}`)
	m := open(b, "stream.map", `{set: {properties.title: "{{ item.id|upper }}", properties.source: "{{ item.collection }}"}, remove: [properties.created], rename: {"properties.proj:epsg": "properties.epsg"}}`)
	run(b, f, m)
}

func BenchmarkFilter(b *testing.B) {
	run(b, open(b, "stream.filter", `{when: 'item.properties["eo:cloud_cover"] < 20'}`))
}

func BenchmarkDedupe(b *testing.B) {
	run(b, open(b, "stream.dedupe", `{}`))
}

func BenchmarkParseWrite(b *testing.B) { run(b) }

func run(b *testing.B, modifiers ...stream.Modifier) {
	var out []byte
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		v, err := item.Parse([]byte(benchItem))
		if err != nil {
			b.Fatal(err)
		}
		it := stream.New(v, stream.Place{})
		for _, m := range modifiers {
			if it, err = m.Modify(context.Background(), it); err != nil {
				b.Fatal(err)
			}
			if it == nil {
				break
			}
		}
		if it != nil {
			out = it.AppendTo(out[:0])
		}
	}
}

// BenchmarkRemember is the set alone, with ever new items.
func BenchmarkRemember(b *testing.B) {
	d := open(b, "stream.dedupe", `{by: [id]}`)
	v := item.NewObject()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		v.Set("id", item.OfText(fmt.Sprint(i)))
		if it, err := d.Modify(context.Background(), stream.New(v, stream.Place{})); it == nil || err != nil {
			b.Fatal("not kept")
		}
	}
}
