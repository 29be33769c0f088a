package stream

import (
	"testing"

	"github.com/stepwell/stepwell/item"
)

func TestBoxOf(t *testing.T) {
	for text, want := range map[string]*Box{
		`{"bbox":[1,2,3,4]}`:                              {1, 2, 3, 4},
		`{"bbox":[ -10.5 , -2e1,3.25,4 ]}`:                {-10.5, -20, 3.25, 4},
		`{"bbox":[1,2,-5,3,4,900]}`:                       {1, 2, 3, 4},
		`{"bbox":[179,-1,-179,1]}`:                        {179, -1, -179, 1},
		`{"bbox":[-180,-90,180,90]}`:                      {-180, -90, 180, 90},
		`{"bbox":[1,2,3]}`:                                nil,
		`{"bbox":[1,2,3,4,5]}`:                            nil,
		`{"bbox":[1,2,3,4,5,6,7]}`:                        nil,
		`{"bbox":[1,5,3,4]}`:                              nil,
		`{"bbox":[1,2,3,91]}`:                             nil,
		`{"bbox":[-181,2,3,4]}`:                           nil,
		`{"bbox":["1",2,3,4]}`:                            nil,
		`{"bbox":[[1,2],3,4]}`:                            nil,
		`{"bbox":[]}`:                                     nil,
		`{"bbox":null}`:                                   nil,
		`{"bbox":{"a":1}}`:                                nil,
		`{"id":"a"}`:                                      nil,
		`{"bbox":[1e999,2,3,4]}`:                          nil,
		`{"bbox":[null,null,null,null],"geometry":false}`: nil,
	} {
		v, err := item.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		box, ok := boxOf(v)
		if ok != (want != nil) || ok && box != *want {
			t.Errorf("%s: %v %v, want %v", text, box, ok, want)
		}
	}
}

// BenchmarkPrint is what a footprint costs an item that has been parsed.
func BenchmarkPrint(b *testing.B) {
	for name, text := range map[string]string{
		"bbox": `{"type":"Feature","stac_version":"1.0.0","id":"S2A_32TQM_20240101_0_L2A","properties":{"datetime":"2024-01-01T00:00:00Z"},"geometry":null,"links":[],"assets":{},"bbox":[11.123456,46.123456,12.654321,47.654321],"collection":"sentinel-2-l2a"}`,
		"none": `{"type":"Feature","stac_version":"1.0.0","id":"S2A_32TQM_20240101_0_L2A","properties":{"datetime":"2024-01-01T00:00:00Z"},"geometry":null,"links":[],"assets":{}}`,
	} {
		b.Run(name, func(b *testing.B) {
			v, err := item.Parse([]byte(text))
			if err != nil {
				b.Fatal(err)
			}
			it := &Item{Value: v, origin: origin{root: &root{}, seq: 1}}
			it.ID() // splits it, as the marks of every item do
			var p pendingPrints
			for n := int64(0); b.Loop(); n++ {
				p.add(it, n)
				if len(p.marks) == 256 {
					p.drop(n)
				}
				p.count = 0
			}
		})
	}
}
