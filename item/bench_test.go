package item_test

import (
	"testing"

	"github.com/stepwell/stepwell/item"
)

// stacItem is about 1 KB, as most items of the catalogs in the wild are in their compact form.
const stacItem = `{"type":"Feature","stac_version":"1.0.0","id":"S2B_31UFT_20240817_0_L2A","collection":"sentinel-2-l2a",` +
	`"bbox":[4.464995307918359,52.34135509680213,6.123456789012345,53.33333333333333],` +
	`"geometry":{"type":"Polygon","coordinates":[[[4.464995307918359,53.23995],[6.11,53.2],[6.07,52.213],[4.4982,52.2535],[4.464995307918359,53.23995]]]},` +
	`"properties":{"datetime":"2024-08-17T10:46:33.456000Z","platform":"sentinel-2b","constellation":"sentinel-2","eo:cloud_cover":12.345678,` +
	`"view:sun_azimuth":157.31512345,"proj:epsg":32631,"mgrs:utm_zone":31,"grid:code":"MGRS-31UFT","s2:sequence":"0","created":"2024-08-17T16:44:01.123Z","updated":null},` +
	`"assets":{"visual":{"href":"https://example.org/S2B_31UFT_20240817_0_L2A/TCI.tif","type":"image/tiff; application=geotiff; profile=cloud-optimized","roles":["visual"]}},` +
	`"links":[{"rel":"self","type":"application/geo+json","href":"https://example.org/items/S2B_31UFT_20240817_0_L2A"}],"stac_extensions":["https://stac-extensions.github.io/eo/v1.1.0/schema.json"]}`

func parsed(b *testing.B) *item.Value {
	v, err := item.Parse([]byte(stacItem))
	if err != nil {
		b.Fatal(err)
	}
	return v
}

func BenchmarkParse(b *testing.B) {
	text := []byte(stacItem)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := item.Parse(text); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLook parses, as all below, and looks at one property: what it takes more than BenchmarkParse is
// the look.
func BenchmarkLook(b *testing.B) {
	text := []byte(stacItem)
	b.ReportAllocs()
	for b.Loop() {
		v, _ := item.Parse(text)
		if v.Get("properties").Get("proj:epsg") == nil {
			b.Fatal("not there")
		}
	}
}

func BenchmarkSet(b *testing.B) {
	text := []byte(stacItem)
	val := item.OfText("x")
	b.ReportAllocs()
	for b.Loop() {
		v, _ := item.Parse(text)
		v.Get("properties").Set("new", val.Clone())
	}
}

func BenchmarkWriteUnchanged(b *testing.B) {
	v, out := parsed(b), make([]byte, 0, 4096)
	v.Get("properties").Get("proj:epsg")
	b.ReportAllocs()
	for b.Loop() {
		out = v.AppendTo(out[:0])
	}
}

func BenchmarkWriteChanged(b *testing.B) {
	v, out := parsed(b), make([]byte, 0, 4096)
	v.Get("properties").Set("new", item.OfText("x"))
	b.ReportAllocs()
	for b.Loop() {
		out = v.AppendTo(out[:0])
	}
}
