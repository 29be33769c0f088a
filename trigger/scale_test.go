package trigger_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/schedule"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/sqlite"
	"github.com/stepwell/stepwell/trigger"
)

// counted is a store that counts what it is asked for.
type counted struct {
	*sqlite.Store
	calls, objects atomic.Int64
}

func (c *counted) PutObjects(ctx context.Context, list ...store.Object) ([]store.Object, error) {
	c.calls.Add(1)
	c.objects.Add(int64(len(list)))
	return c.Store.PutObjects(ctx, list...)
}

func (c *counted) Objects(ctx context.Context, f store.ObjectFilter) ([]store.Object, error) {
	list, err := c.Store.Objects(ctx, f)
	c.calls.Add(1)
	c.objects.Add(int64(len(list)))
	return list, err
}

// TestFiringsCostTheSame: what a firing asks of the store does not depend on how many other jobs there are, of any type.
func TestFiringsCostTheSame(t *testing.T) {
	cost := func(others int) (calls, objects int64) {
		bubble(t, func(t *testing.T, r *rig) {
			r.die()
			c := &counted{Store: r.store}
			r.boot(process{objects: c})
			for i := range others {
				timing := []trigger.Timing{cron("0 0 1 6 *"), {Type: trigger.TypeManual}, {Type: trigger.TypeEvent, Expression: "some.thing"}, {Type: trigger.TypeAfter, After: &trigger.After{Job: "other-0"}}}[i%4]
				r.job(fmt.Sprintf("other-%d", i), timing, nil)
			}
			r.job("often", cron("* * * * *"), func(j *trigger.Job) { j.Overlap = schedule.OverlapAllow })
			synctest.Wait()
			calls, objects = c.calls.Load(), c.objects.Load()
			pass(30 * time.Minute)
			calls, objects = c.calls.Load()-calls, c.objects.Load()-objects
			if n := r.ledger.count(); n != 30 {
				t.Fatalf("%d firings", n)
			}
		})
		return calls, objects
	}
	calls, objects := cost(2)
	manyCalls, manyObjects := cost(1000)
	if calls == 0 || calls != manyCalls || objects != manyObjects {
		t.Errorf("30 firings beside 2 jobs cost %d calls and %d objects, beside 1,000 %d and %d", calls, objects, manyCalls, manyObjects)
	}
}
