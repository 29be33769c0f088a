package trigger_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/schedule"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/trigger"
)

// kept counts the objects about the firings of jobs.
func (r *rig) kept() (chunks, marks int) {
	r.t.Helper()
	for kind, n := range map[string]*int{store.KindFirings: &chunks, "schedule_leftover": &marks} {
		list, err := r.store.Objects(r.t.Context(), store.ObjectFilter{Kind: kind, Limit: 10_000})
		if err != nil {
			r.t.Fatal(err)
		}
		*n = len(list)
	}
	return chunks, marks
}

// TestDeletedJobLeavesNothing: the ledger of a deleted job is removed, also when the process died in between, and that of
// others and of a job that has taken its place stays.
func TestDeletedJobLeavesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		often := cron("* * * * *")
		allow := func(j *trigger.Job) { j.Overlap = schedule.OverlapAllow }
		r.job("gone", often, allow)
		r.job("stays", often, allow)
		pass(150 * time.Minute)
		all, _ := r.kept()
		if all < 8 {
			t.Fatalf("%d chunks", all)
		}
		before := len(r.firings("stays"))
		if err := r.Delete(t.Context(), "gone", store.AnyRevision); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if chunks, marks := r.kept(); chunks != all/2 || marks != 0 {
			t.Errorf("%d of %d chunks and %d marks are left", chunks, all, marks)
		}
		if n := len(r.firings("stays")); n != before {
			t.Errorf("the other job has %d firings, had %d", n, before)
		}

		// A job in its place, while nobody cleans up: its own ledger stays.
		r.job("again", often, allow)
		pass(100 * time.Minute)
		r.die()
		if err := r.Delete(t.Context(), "again", store.AnyRevision); err != nil {
			t.Fatal(err)
		}
		if _, marks := r.kept(); marks != 1 {
			t.Fatalf("%d marks", marks)
		}
		r.boot(process{})
		r.job("again", often, allow)
		pass(time.Minute)
		if _, marks := r.kept(); marks != 0 {
			t.Errorf("%d marks are left after a restart", marks)
		}
		pass(100 * time.Minute)
		if n := len(r.firings("again")); n != 101 {
			t.Errorf("the new job has %d firings", n)
		}
		chunks, _ := r.kept()
		if _, err := r.Update(t.Context(), "again", store.AnyRevision, func(*trigger.Job) error { return errors.New("no") }); err == nil {
			t.Fatal("no error")
		}
		if err := r.Delete(t.Context(), "again", 1<<40); err == nil { // refused: nothing is removed
			t.Fatal("no conflict")
		}
		synctest.Wait()
		if now, marks := r.kept(); now != chunks || marks != 0 {
			t.Errorf("%d of %d chunks and %d marks after a refused deletion", now, chunks, marks)
		}
	})
}
