package trigger_test

import (
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/trigger"
)

// Refresh takes over the jobs of another process: a new one fires here, a changed one fires as it says now, and a deleted
// one fires no more.
func TestRefresh(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.job("changed", cron("0 * * * *"), nil)
		r.job("gone", cron("0 * * * *"), nil)
		here := r.Schedules
		other, err := trigger.New(t.Context(), trigger.Options{Objects: r.store, Launcher: r.ledger, Executions: r.ledger, Canceler: r.ledger, Keys: r.ledger, Log: r.log})
		if err != nil {
			t.Fatal(err)
		}
		must(other.Create(t.Context(), &trigger.Job{ID: "new", Schedule: cron("30 * * * *"), Target: &trigger.Target{Action: "util.noop"}}, ""))
		must(other.Update(t.Context(), "changed", store.AnyRevision, func(j *trigger.Job) error { j.Schedule = cron("45 * * * *"); return nil }))
		if err := other.Delete(t.Context(), "gone", store.AnyRevision); err != nil {
			t.Fatal(err)
		}
		changed := []store.Object{{Kind: "webhook", ID: "x"}, {Kind: "schedule", ID: "new"}, {Kind: "schedule_state", ID: "new"}, {Kind: "schedule", ID: "changed"}, {Kind: "schedule", ID: "gone"}, {Kind: "schedule", ID: "never"}}
		if err := here.Refresh(t.Context(), changed); err != nil {
			t.Fatal(err)
		}
		pass(61 * time.Minute)
		if r.last("new") == "" || r.view("new").RunCount != 1 || r.view("changed").RunCount != 1 || r.view("changed").LastRunAt.Minute() != 45 {
			t.Errorf("new: %+v, changed: %+v", r.view("new"), r.view("changed"))
		}
		_, err = here.Job("gone")
		wantCode(t, err, stepwell.CodeNotFound)
	})
}
