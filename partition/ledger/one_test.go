package ledger_test

import (
	"reflect"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/partition"
)

// One tells of each partition what the table tells.
func TestOne(t *testing.T) {
	r := newRig(t)
	p := r.create(mirror)
	r.make(p, nil, "s2", "2026-08")
	r.make(p, map[string]any{"fails": true}, "l9", "2026-09")
	must(t, r.Settle(t.Context(), r.store))
	got := r.table("", "mirror")
	if got.Grid != "d...f." {
		t.Fatal(got.Grid)
	}
	for i := range got.Partitions {
		one, err := r.One(t.Context(), p.ID, got.Partitions[i].Key)
		must(t, err)
		if !reflect.DeepEqual(*one, got.Partitions[i]) {
			t.Errorf("%+v, the table has %+v", *one, got.Partitions[i])
		}
	}
	for _, key := range []string{"s2", "s2/1999-01", "s2/2026-08/x", "%zz/2026-08"} {
		if _, err := r.One(t.Context(), "mirror", key); stepwell.CodeOf(err) != stepwell.CodeNotFound {
			t.Errorf("%q: %v", key, err)
		}
	}
	if _, err := r.One(t.Context(), "nobody", partition.KeyOf([]string{"s2", "2026-08"})); stepwell.CodeOf(err) != stepwell.CodeNotFound {
		t.Error(err)
	}
}
