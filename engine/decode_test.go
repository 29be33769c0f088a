package engine

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// decodeSamples are batches as they are written, and such that are not.
var decodeSamples = []string{
	`{"t":5,"e":[]}`, `{"t":1767225600000000,"e":[[2,3,1,0,-500,{"a":"}]\"","b":[1,{"c":null}]}]],"q":[[4,1]]}`, `{"t":5,"e":[[2,3,1,0,-500]],"q":[[4,2],[9,1]]}`,
	`{"t":5,"e":[{"k":6,"i":3,"p":2,"d":0,"w":"host 1","s":-9},{"k":6,"p":2,"d":0,"w":"é","s":-9}]}`, `{"t":5,"e":[{"k":6,"p":2,"d":0,"w":"a","s":-9}]}`,
	`{"t":5,"e":[{"k":9,"d":0}]}`, `{"t":5,"e":[[2,3,1,0,-500,null,12]]}`, `{"t":5,"e":[[2,3,1,0,-500,"@sha256:00:5"]]}`, `{"t":5,"e":[{"k":3,"i":1,"p":1,"d":0,"f":{"message":"no"},"s":-1}],"q":[[1,1]]}`,
	`{"t":05,"e":[]}`, `{"t":-0,"e":[]}`, `{"t":5,"e":[[2,3000000000,1,0,0]]}`, `{"t":5,"e":[[2,3,-1,0,0]]}`, `{"t":5,"e":[]} `, `{"t":5,"e":[[2,3,1,0,0,{"a":tru}]]}`, `{"e":[],"t":5}`,
	`{"t":5,"e":[],"q":[[1,-1]]}`, `{"t":5,"e":[],"q":[[1,1],]}`, `{"t":5,"e":[,]}`, `{"t":5,"e":[[2,3,1,0,0],]}`, `{"t":5,"e":[{"k":6,"i":0,"p":1,"d":0,"w":"x","s":0}]}`,
	`{"t":5,"e":[{"k":6,"d":0,"w":"x","s":0}]}`, `{"t":99999999999999999999,"e":[]}`, ``, `{"t":5,"e":[[2,3,1,0,0,{"a":1}}]]}`,
}

// However a batch is damaged, both ways of reading it say the same.
func TestDecodeWritten(t *testing.T) {
	files, err := filepath.Glob("testdata/recorded/*")
	if err != nil {
		t.Fatal(err)
	}
	samples := [][]byte{}
	for _, text := range decodeSamples {
		samples = append(samples, []byte(text))
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(raw) {
			samples = append(samples, bytes.TrimSpace(line))
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	fast := 0
	var got, want Batch // got has the memory of what was read before
	compare := func(body []byte) {
		if !got.decodeWritten(7, body) {
			return
		}
		fast++
		if err := want.decodeAny(7, body); err != nil {
			t.Fatalf("%s: read as %+v, and is damaged: %v", body, got, err)
		}
		if len(got.Events) == 0 && len(want.Events) == 0 {
			got.Events = want.Events
		}
		if len(got.Queued) == 0 && len(want.Queued) == 0 {
			got.Queued = want.Queued
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s:\n%+v\n%+v", body, got, want)
		}
	}
	const alphabet = `0123456789-,:[]{}"\ekpidwsfqtx null`
	for _, body := range samples {
		compare(body)
		for range 3000 {
			damaged := bytes.Clone(body)
			for range 1 + random.IntN(3) {
				if len(damaged) == 0 {
					break
				}
				at := random.IntN(len(damaged))
				switch random.IntN(3) {
				case 0:
					damaged[at] = alphabet[random.IntN(len(alphabet))]
				case 1:
					damaged = append(damaged[:at], damaged[at+1:]...)
				default:
					damaged = append(damaged[:at], append([]byte{alphabet[random.IntN(len(alphabet))]}, damaged[at:]...)...)
				}
			}
			compare(damaged)
		}
	}
	if fast < 1000 {
		t.Errorf("%d batches were read in the short way", fast)
	}
}
