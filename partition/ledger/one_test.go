package ledger_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/partition"
	"github.com/stepwell/stepwell/partition/ledger"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/sqlite"
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

// counted counts the executions that are read; before says that none of them has its partition in its row.
type counted struct {
	*sqlite.Store
	n      int
	before bool
}

// Executions implements ledger.Executions.
func (c *counted) Executions(ctx context.Context, f store.Filter) ([]store.Execution, error) {
	if c.before && f.Partition != "" {
		return nil, nil
	}
	list, err := c.Store.Executions(ctx, f)
	c.n += len(list)
	for i := range list {
		if c.before {
			list[i].Partition = ""
		}
	}
	return list, err
}

// TestStartReadsItsOwn: a start of a partition, and a look at one, read the executions of that partition alone, however many are under
// way; those from before the rows named it are found all the same.
func TestStartReadsItsOwn(t *testing.T) {
	r := newRig(t)
	document := strings.NewReplacer("from: 2026-08", "from: 2020-08", "action: util.log, depends_on: [ingest], params: {message: \"{{ steps.ingest.outputs.text }}\"}", "action: util.wait, depends_on: [ingest], params: {seconds: 600}").Replace(mirror)
	p := r.create(document)
	c := &counted{Store: r.store}
	over := func() *ledger.Ledger {
		return ledger.New(ledger.Options{Objects: r.store, Executions: c, Library: r.library, Catalog: r.actions, Now: func() time.Time { return time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC) }})
	}
	r.Ledger = over()
	start := func(month string) string {
		t.Helper()
		x, err := r.Start(t.Context(), p.Name, []string{"s2", month}, nil, pipeline.Launch{})
		must(t, err)
		return x.Execution
	}
	ids := map[string]string{}
	for i := range 40 {
		month := fmt.Sprintf("%d-%02d", 2021+i/12, i%12+1)
		ids[month] = start(month)
	}
	if c.n > 0 {
		t.Errorf("40 starts of other partitions have read %d executions", c.n)
	}
	for month, id := range ids {
		if got := start(month); got != id {
			t.Errorf("%s is %s and %s", month, id, got)
		}
		one, err := r.One(t.Context(), p.ID, partition.KeyOf([]string{"s2", month}))
		must(t, err)
		if one.State != ledger.Running || string(one.Execution) != id {
			t.Errorf("%+v", one)
		}
	}
	if c.n != 2*len(ids) {
		t.Errorf("%d executions were read, there are %d", c.n, len(ids))
	}
	c.before, r.Ledger = true, over()
	if got := start("2021-03"); got != ids["2021-03"] {
		t.Errorf("of before: %s, not %s", got, ids["2021-03"])
	}
	c.n = 0
	start("2025-09")
	start("2025-10")
	if c.n > 0 {
		t.Errorf("%d executions were read once more", c.n)
	}
}
