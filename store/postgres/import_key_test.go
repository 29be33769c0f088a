package postgres

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
)

// The key at which an interrupted import goes on has the values that it had, with their types.
func TestImportKey(t *testing.T) {
	for _, want := range []importKey{nil, {int64(math.MaxInt64), "", []byte{}}, {int64(-1), "\xffbä", []byte{0, 255}, "42"}} {
		raw, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got importKey
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %#v, want %#v", raw, got, want)
		}
	}
	if raw, err := json.Marshal(importKey{1.5}); err == nil {
		t.Errorf("a key of no integer, text or bytes is %s", raw)
	}
	for _, raw := range []string{`[""]`, `["x00"]`, `["i"]`, `["b0"]`, `{}`} {
		var got importKey
		if err := json.Unmarshal([]byte(raw), &got); err == nil {
			t.Errorf("%s is %v", raw, got)
		}
	}
}
